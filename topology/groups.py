"""Kinds of process groups, read from what the runtime calls them."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("tp", "cp", "dp", "dp_cp", "pp", "ep", "etp", "edp", "world")
"""Kinds of a group; anything else keeps the runtime's description as its kind."""

_BY_DESC = {
    "default_pg": "world",
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "CONTEXT_PARALLEL_GROUP": "cp",
    "DATA_PARALLEL_GROUP": "dp",
    "DATA_PARALLEL_GROUP_WITH_CP": "dp_cp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "EXPERT_TENSOR_PARALLEL_GROUP": "etp",
    "EXPERT_DATA_PARALLEL_GROUP": "edp",
    "mesh_tp": "tp",
    "mesh_cp": "cp",
    "mesh_dp": "dp",
    "mesh_dp_shard": "dp",
    "mesh_dp_replicate": "dp",
    "mesh_fsdp": "dp",
    "mesh_pp": "pp",
    "mesh_ep": "ep",
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """One process group; `id` is `<kind>/<n>`, n counting the groups of the kind by lowest rank."""

    id: str
    kind: str
    desc: str
    ranks: tuple[int, ...]


def kind_of(desc: str, *, size: int, world_size: int) -> str:
    """Kind of a group from its description; a group of every rank without one is the world.

    >>> kind_of("mesh_tp", size=2, world_size=8), kind_of("", size=8, world_size=8)
    ('tp', 'world')
    """
    if desc in _BY_DESC:
        return _BY_DESC[desc]
    if not desc or desc in ("undefined", "default"):
        return "world" if size == world_size else "other"
    return desc.removeprefix("mesh_").lower()[:40]
