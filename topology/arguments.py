"""The parallel layout that a framework's own log lines or command line ask for."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from argus.topology.facts import LoaderError
from argus.topology.megatron import megatron
from argus.topology.parallel import MEGATRON_ORDER, TP_PP_DP_ORDER, Parallel, deepspeed, device_mesh

_NAMES = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "expert_tensor_parallel_size": "etp",
    "virtual_pipeline_model_parallel_size": "virtual",
    "num_distributed_optimizer_instances": "optimizer_instances",
    "world_size": "world",
}
_WORLD_ALIASES = re.compile(r"\busing world size: ([0-9]{1,9})\b", re.IGNORECASE)
_MAPPING = re.compile(r"(--use-tp-pp-dp-mapping\b|\buse_tp_pp_dp_mapping\W+True\b)")
_TITAN = re.compile(r"Building \d+-D device mesh with (\[.*?\]), (\[.*?\])")
_PROCESS_COORD = re.compile(r"ProcessCoord\(([^)]{1,200})\): ([0-9]{1,9})")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def parallel_from_text(text: str, *, origin: str = "", world_size: int = 0) -> Parallel:
    """Layout from a log or command line of Megatron, torchtitan or DeepSpeed.

    `world_size` serves where the text has none. LoaderError, naming what was looked for, if nothing fits.
    """
    text = _ANSI.sub("", text)
    try:
        found = _titan(text) or _deepspeed(text) or _megatron(text, world_size)
    except ValueError as error:
        raise LoaderError(str(error), origin=origin, field="arguments") from None
    if found is None:
        raise LoaderError(
            "has no framework arguments: looked for Megatron's argument list or flags, torchtitan's "
            "'Building N-D device mesh' and DeepSpeed's 'ProcessCoord' lines",
            origin=origin,
        )
    return found


def _titan(text: str) -> Parallel | None:
    match = _TITAN.search(text)
    if not match:
        return None
    try:
        first, second = (ast.literal_eval(part) for part in match.groups())
    except (ValueError, SyntaxError):
        return None
    # The line printed the sizes first in early versions and the names first in later ones.
    names, sizes = (first, second) if first and isinstance(first[0], str) else (second, first)
    if not isinstance(names, list) or not isinstance(sizes, list):
        return None
    if len(names) != len(sizes) or not all(isinstance(size, int) for size in sizes):
        raise ValueError(f"device mesh with names {names} and sizes {sizes} does not match up")
    dims = tuple((str(name), int(size)) for name, size in zip(names, sizes, strict=True))
    return device_mesh(dims, flatten=_flatten(tuple(map(str, names))))


def _flatten(names: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    shards = [name for name in names if name.startswith("dp_shard")]
    data = tuple(name for name in names if name == "dp_replicate" or name in shards)
    flat = {}
    if len(data) > 1:
        flat["dp"] = data
    if "cp" in names and data:
        flat["dp_cp"] = (*data, "cp")
    if "dp_shard_in_ep" in names:
        flat["ep"] = tuple(name for name in ("dp_shard_in_ep", "cp") if name in names)
    return flat


def _deepspeed(text: str) -> Parallel | None:
    rows = _PROCESS_COORD.findall(text)
    if not rows:
        return None
    coords = [dict(re.findall(r"(\w+)=([0-9]{1,9})", body)) for body, _ in rows]
    names = tuple(coords[0])
    if any(tuple(row) != names for row in coords):
        raise ValueError("ProcessCoord entries name different axes")
    sizes = {name: max(int(row[name]) for row in coords) + 1 for name in names}
    layout = deepspeed(tuple(sizes.items()))
    if layout.world_size != len({rank for _, rank in rows}):
        raise ValueError(f"{len(rows)} ProcessCoord entries do not fill axes {sizes}")
    return layout


def _megatron(text: str, world_size: int) -> Parallel | None:
    sizes: dict[str, int] = {}
    for name, key in _NAMES.items():
        if (value := _value(text, name)) is not None:
            sizes[key] = value
    if not set(sizes) & {"tp", "pp", "cp", "ep"}:
        return None
    if (match := _WORLD_ALIASES.search(text)) and "world" not in sizes:
        sizes["world"] = int(match.group(1))
    world = sizes.pop("world", 0) or world_size
    if not world:
        raise ValueError("gives parallel sizes but no world size")
    virtual = sizes.pop("virtual", 1)
    order = TP_PP_DP_ORDER if _MAPPING.search(text) else MEGATRON_ORDER
    return megatron(
        world,
        tp=sizes.get("tp", 1),
        pp=sizes.get("pp", 1),
        cp=sizes.get("cp", 1),
        ep=sizes.get("ep", 1),
        etp=sizes.get("etp", 0),
        optimizer_instances=sizes.get("optimizer_instances", 1),
        order=order,
        virtual=virtual,
    )


def _value(text: str, name: str) -> int | None:
    """The last number given to an argument: `name ........ 2`, `name: 2`, `name=2`, `--na-me 2`."""
    words = re.escape(name).replace("_", "[-_]")
    found = re.findall(rf"(?<![A-Za-z0-9_-])(?:--)?{words}(?:\s*[.:=]+\s*|\s+)([0-9]{{1,9}})\b", text)
    return int(found[-1]) if found else None
