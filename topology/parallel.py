"""What a framework's parallel sizes mean: every rank's coordinates, every group, by closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from argus.topology.axes import Axes, Ints, axes_of
from argus.topology.groups import Group

MEGATRON_ORDER = "tp-cp-ep-dp-pp"
"""Megatron-LM's default, first varies fastest."""

TP_PP_DP_ORDER = "tp-cp-ep-pp-dp"
"""What --use-tp-pp-dp-mapping makes of it."""


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """A parallel layout that is computed, not observed.

    `kinds` maps a kind to the grid it lives on and the dimensions its groups run along; `extra` holds
    groups that are not a plain slice of a grid. `virtual` is the number of model chunks per stage.
    """

    world_size: int
    grids: tuple[Axes, ...]
    kinds: Mapping[str, tuple[int, tuple[str, ...]]]
    extra: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    virtual: int = 1
    text: str = ""

    def members(self, kind: str) -> Ints:
        """Groups of a kind, shape (group, member); ValueError for a kind the layout has not."""
        if kind not in self.kinds:
            raise ValueError(f"no groups of kind {kind!r}; there are {', '.join(self.kinds)}")
        grid, along = self.kinds[kind]
        return self.grids[grid].groups(*along)

    def groups(self) -> tuple[Group, ...]:
        """Every group of more than one rank, and the world."""
        found = [_group("world", 0, tuple(range(self.world_size)))]
        for kind in self.kinds:
            table = self.members(kind)
            if table.shape[1] > 1:
                found += [_group(kind, i, tuple(row)) for i, row in enumerate(table.tolist())]
        for kind, rows in self.extra.items():
            found += [_group(kind, i, row) for i, row in enumerate(rows)]
        return tuple(found)

    def coords(self) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
        """Names of all dimensions, each once, and every rank's coordinates along them."""
        names: list[str] = []
        columns: list[Ints] = []
        for grid in self.grids:
            table = grid.coordinates()
            for i, name in enumerate(grid.names):
                if name not in names:
                    names.append(name)
                    columns.append(table[:, i])
        rows = np.stack(columns, axis=1).tolist() if columns else [[] for _ in range(self.world_size)]
        return tuple(names), [tuple(row) for row in rows]


def _group(kind: str, number: int, ranks: tuple[int, ...]) -> Group:
    return Group(id=f"{kind}/{number}", kind=kind, desc=kind, ranks=ranks)


def device_mesh(
    dims: tuple[tuple[str, int], ...], *, flatten: Mapping[str, tuple[str, ...]] | None = None
) -> Parallel:
    """Any DeviceMesh: (name, size) slow to fast, and flattened dims by the names they join.

    >>> mesh = device_mesh((("replicate", 2), ("shard", 2)), flatten={"dp": ("replicate", "shard")})
    >>> mesh.members("dp").tolist()
    [[0, 1, 2, 3]]
    """
    grid = axes_of(dims)
    kinds: dict[str, tuple[int, tuple[str, ...]]] = {name: (0, (name,)) for name in grid.names}
    for name, parts in (flatten or {}).items():
        if not parts or set(parts) - set(grid.names):
            raise ValueError(f"flattened dimension {name!r} joins {parts}, the mesh has {grid.names}")
        kinds[name] = (0, tuple(parts))
    text = "mesh " + " × ".join(f"{name} {size}" for name, size in dims)
    return Parallel(world_size=grid.world_size, grids=(grid,), kinds=kinds, text=text)


def torchtitan(
    world_size: int,
    *,
    pp: int = 1,
    dp_replicate: int = 1,
    dp_shard: int = -1,
    cp: int = 1,
    tp: int = 1,
    ep: int = 1,
    etp: int = 1,
) -> Parallel:
    """torchtitan's ParallelDims: dense mesh pp, dp_replicate, dp_shard, cp, tp; experts share its ranks.

    `dp_shard` -1 takes what is left. Experts: with `etp` = `tp` they span dp_shard × cp, with `etp` 1 also
    tp (torchtitan, distributed/parallel_dims.py).
    """
    rest = pp * dp_replicate * cp * tp
    shard = world_size // rest if dp_shard == -1 else dp_shard
    if rest * shard != world_size:
        raise ValueError(
            f"pp × dp_replicate × dp_shard × cp × tp = {rest * shard}, the world is {world_size}"
        )
    dense = axes_of((("pp", pp), ("dp_replicate", dp_replicate), ("dp_shard", shard), ("cp", cp), ("tp", tp)))
    kinds: dict[str, tuple[int, tuple[str, ...]]] = {name: (0, (name,)) for name in dense.names}
    kinds["dp"] = (0, ("dp_replicate", "dp_shard"))
    kinds["dp_cp"] = (0, ("dp_replicate", "dp_shard", "cp"))
    grids = [dense]
    if ep > 1:
        within = shard * cp * tp
        if etp not in (1, tp) or within % (ep * etp):
            raise ValueError(f"ep {ep} × etp {etp} must divide dp_shard × cp × tp = {within}, etp be 1 or tp")
        pairs = (("pp", pp), ("dp_replicate", dp_replicate), ("edp", within // (ep * etp)), ("ep", ep))
        grids.append(axes_of((*pairs, ("etp", etp))))
        kinds |= {"edp": (1, ("dp_replicate", "edp")), "ep": (1, ("ep",)), "etp": (1, ("etp",))}
    text = f"torchtitan pp {pp} dp_replicate {dp_replicate} dp_shard {shard} cp {cp} tp {tp} ep {ep}"
    return Parallel(world_size=world_size, grids=tuple(grids), kinds=kinds, text=text)


def deepspeed(axes: tuple[tuple[str, int], ...]) -> Parallel:
    """DeepSpeed's PipeModelDataParallelTopology: row-major axes such as pipe, data, model.

    >>> deepspeed((("pipe", 2), ("data", 1), ("model", 2))).members("pp").tolist()
    [[0, 2], [1, 3]]
    """
    names = {"pipe": "pp", "data": "dp", "model": "tp", "expert": "ep"}
    return device_mesh(tuple((names.get(name, name), size) for name, size in axes))
