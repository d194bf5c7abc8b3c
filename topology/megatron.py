"""Megatron-LM's rank order, after megatron/core/parallel_state.py: dense and expert generators."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from argus.topology.axes import Axes, axes_of
from argus.topology.parallel import MEGATRON_ORDER, Parallel

_COMBINED = {
    "tp": ("tp",),
    "cp": ("cp",),
    "dp": ("dp",),
    "dp_cp": ("dp", "cp"),
    "pp": ("pp",),
    "mp": ("tp", "pp"),
    "tp_cp": ("tp", "cp"),
    "tp_dp": ("tp", "dp"),
    "tp_dp_cp": ("tp", "dp", "cp"),
}
_EXPERT = {
    "ep": ("ep",),
    "etp": ("etp",),
    "edp": ("edp",),
    "etp_ep": ("etp", "ep"),
    "etp_ep_pp": ("etp", "ep", "pp"),
}


def megatron(
    world_size: int,
    *,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    etp: int = 0,
    order: str = MEGATRON_ORDER,
    virtual: int = 1,
    optimizer_instances: int = 1,
) -> Parallel:
    """Megatron's layout; `etp` 0 means as `tp`. ValueError if the sizes do not fill the world.

    >>> megatron(16, tp=2, pp=4).members("pp").tolist()
    [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]
    """
    words = _check_order(order, {"tp": tp, "cp": cp, "ep": ep, "pp": pp})
    etp = etp or tp
    dp = _divide(world_size, {"tp": tp, "pp": pp, "cp": cp})
    edp = _divide(world_size, {"etp": etp, "ep": ep, "pp": pp})
    if pp > 1 and words[-1] != "pp" and dp != edp:
        raise ValueError(f"with order {order} dp {dp} and edp {edp} must be equal, or pp come last")
    dense = _grid(words, {"tp": tp, "cp": cp, "dp": dp, "pp": pp}, {})
    expert = _grid(words, {"tp": etp, "ep": ep, "dp": edp, "pp": pp}, {"tp": "etp", "dp": "edp"})
    if not np.array_equal(dense.groups("pp"), expert.groups("pp")):
        raise ValueError(f"order {order} gives dense and expert layers different pipelines")
    kinds: dict[str, tuple[int, tuple[str, ...]]] = {kind: (0, along) for kind, along in _COMBINED.items()}
    grids: tuple[Axes, ...] = (dense,)
    if ep > 1 or etp != tp:
        grids = (dense, expert)
        kinds |= {kind: (1, along) for kind, along in _EXPERT.items()}
    sizes = f"tp {tp} cp {cp} ep {ep} etp {etp} dp {dp} edp {edp} pp {pp}"
    text = f"Megatron order {order}, {sizes}"
    plain = Parallel(world_size=world_size, grids=grids, kinds=kinds, virtual=virtual, text=text)
    return replace(plain, extra=_embedding(plain, pp) | _partial(plain, optimizer_instances))


def _check_order(order: str, sizes: dict[str, int]) -> list[str]:
    words = order.lower().split("-")
    known = {*sizes, "dp"}
    if len(set(words)) != len(words) or set(words) - known:
        raise ValueError(
            f"order must be a sequence of {'-'.join(sorted(known))} without repeats, got {order!r}"
        )
    for name, size in sizes.items():
        if name not in words and size > 1:
            raise ValueError(f"order {order!r} leaves out {name}, whose size is {size}")
    return [*words, *(name for name in ("tp", "cp", "ep", "dp", "pp") if name not in words)]


def _divide(world_size: int, sizes: dict[str, int]) -> int:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    part = prod(sizes.values())
    if world_size % part:
        shown = " × ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(f"world size {world_size} is not divisible by {shown} = {part}")
    return world_size // part


def _grid(words: list[str], sizes: dict[str, int], rename: dict[str, str]) -> Axes:
    # The order string is fast to slow, Axes slow to fast.
    return axes_of((rename.get(word, word), sizes[word]) for word in reversed(words) if word in sizes)


def _embedding(plain: Parallel, pp: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    if pp == 1:
        return {}
    return {"embd": tuple((row[0], row[-1]) for row in plain.members("pp").tolist())}


def _partial(plain: Parallel, instances: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    """num_distributed_optimizer_instances: each gradient group cut into blocks and across them."""
    if instances == 1:
        return {}
    found = {}
    for kind in ("dp_cp", "edp"):
        if kind not in plain.kinds:
            continue
        table = plain.members(kind)
        if table.shape[1] % instances:
            raise ValueError(
                f"{instances} optimizer instances do not divide the {kind} size {table.shape[1]}"
            )
        blocks = table.reshape(len(table), instances, -1)
        intra = blocks.reshape(-1, blocks.shape[2]).tolist()
        inter = blocks.transpose(0, 2, 1).reshape(-1, instances).tolist()
        found[f"{kind}_intra"] = tuple(sorted(tuple(row) for row in intra))
        found[f"{kind}_inter"] = tuple(sorted(tuple(row) for row in inter))
    return found


def chunks_of(stage: int, *, pp: int, virtual: int) -> tuple[int, ...]:
    """Model chunks a pipeline rank holds: its stage, then every pp-th.

    >>> chunks_of(0, pp=4, virtual=2)
    (0, 4)
    """
    return tuple(range(stage, pp * virtual, pp))


def layers_of(chunk: int, *, num_layers: int, pp: int, virtual: int) -> tuple[int, ...]:
    """Layers of a chunk, counted from 1 as Megatron's documentation does.

    >>> layers_of(4, num_layers=16, pp=4, virtual=2)
    (9, 10)
    """
    if num_layers % (pp * virtual):
        raise ValueError(f"{num_layers} layers do not divide into {pp} × {virtual} chunks")
    per = num_layers // (pp * virtual)
    return tuple(range(chunk * per + 1, (chunk + 1) * per + 1))
