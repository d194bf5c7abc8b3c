"""How far trouble at an element or a rank reaches: blast radius, and who waits on whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from argus.topology.fleet import Fleet
from argus.topology.groups import Group


@dataclass(frozen=True, kw_only=True)
class BlastRadius:
    """What an element carries, and what depends on that through groups.

    `groups` are those with a member on the element, per kind; `reached` counts the ranks of those groups:
    who waits at the next collective of that kind.
    """

    element: str
    ranks: tuple[int, ...]
    gpus: tuple[str, ...]
    hosts: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    stages: tuple[str, ...]
    reached: Mapping[str, int]
    share_of_world: float


def blast_radius(fleet: Fleet, element: str) -> BlastRadius:
    """Ranks, GPUs, hosts, groups and stages on an element; NotInTopology if it is unknown."""
    element = fleet.element(element)
    over = fleet.ranks
    items = over.items_of(over.index[element])
    touched = np.flatnonzero(over.count(items))
    codes = fleet.kind_codes[touched]

    def places_of(kind: str) -> list[int]:
        wanted = touched[codes == fleet.kinds.index(kind)] if kind in fleet.kinds else touched[:0]
        return [int(i) for i in wanted]

    def of_kind(kind: str) -> tuple[str, ...]:
        return tuple(over.ids[i] for i in places_of(kind))

    groups: dict[str, list[int]] = {}
    for i in places_of("group"):
        groups.setdefault(over.ids[i].removeprefix("group:").rpartition("/")[0], []).append(i)
    return BlastRadius(
        element=element,
        ranks=tuple(items.tolist()),
        gpus=of_kind("gpu"),
        hosts=of_kind("host"),
        groups={kind: tuple(over.ids[i].removeprefix("group:") for i in ids) for kind, ids in groups.items()},
        stages=of_kind("stage"),
        reached={kind: len(over.items_under(np.array(ids))) for kind, ids in groups.items()},
        share_of_world=len(items) / fleet.topology.world_size,
    )


PHASE_KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "grad_sync": (("dp_cp", "dp", "dp_shard", "dp_replicate"), ("edp",), ("embd",)),
    "param_gather": (("dp_cp_intra", "dp_shard_cp", "dp_shard", "dp_cp", "dp"), ("edp_intra", "edp")),
    "tp_comm": (("tp",), ("etp",)),
    "ep_comm": (("ep",), ("etp_ep",)),
    "cp_comm": (("cp",),),
    "optimizer": (("mp",), ("world",)),
    "checkpoint": (("world",),),
    "eval": (("world",),),
    "forward": (("tp",), ("cp",), ("ep",)),
    "backward": (("tp",), ("cp",), ("ep",)),
    "data": (("tp",), ("cp",)),
    "h2d": (),
    "pp_recv": (),
    "pp_send": (),
    "other": (("world",),),
}
"""Kinds of groups met in each canonical phase; of alternatives the first that exists counts."""

UPSTREAM = ("forward", "pp_recv", "data")
DOWNSTREAM = ("backward", "pp_send")


@dataclass(frozen=True, kw_only=True)
class Wait:
    """`waiter` cannot finish the phase before every rank of `on` has reached it."""

    waiter: int
    on: tuple[int, ...]
    group: str
    why: str


def waits_of(fleet: Fleet, rank: int, *, phase: str) -> tuple[Wait, ...]:
    """On whom a rank waits in a phase: members of its groups there, and its pipeline neighbour.

    ValueError for a phase that is not canonical.
    """
    if phase not in PHASE_KINDS:
        raise ValueError(f"phase must be one of {', '.join(PHASE_KINDS)}, got {phase!r}")
    mine = fleet.topology.groups_of(rank)
    waits = [_in_group(rank, group, phase) for group in _met(mine, phase)]
    return (*waits, *_pipeline(fleet, rank, mine, phase))


def waiters_on(fleet: Fleet, rank: int, *, phase: str) -> tuple[int, ...]:
    """Who waits on a rank in a phase, directly."""
    mine = fleet.topology.groups_of(rank)
    fleet.topology.check_rank(rank)
    near = {other for group in mine if group.kind == "pp" for other in group.ranks}
    near |= {other for wait in waits_of(fleet, rank, phase=phase) for other in wait.on}
    near.discard(rank)
    direct = {other for group in _met(mine, phase) for other in group.ranks if other != rank}
    piped = {
        other for other in near - direct if any(rank in w.on for w in waits_of(fleet, other, phase=phase))
    }
    return tuple(sorted(direct | piped))


def _met(mine: tuple[Group, ...], phase: str) -> list[Group]:
    met: list[Group] = []
    for alternatives in PHASE_KINDS[phase]:
        for kind in alternatives:
            found = [group for group in mine if group.kind == kind and len(group.ranks) > 1]
            met += found
            if found and kind != "dp_shard":  # sharded gradients are reduced again across replicas
                break
    if not met and phase == "grad_sync":
        met = [group for group in mine if group.kind == "world" and len(group.ranks) > 1]
    return met


def _in_group(rank: int, group: Group, phase: str) -> Wait:
    return Wait(
        waiter=rank,
        on=tuple(other for other in group.ranks if other != rank),
        group=group.id,
        why=f"{phase}: a collective of {group.id} ends when its last member has entered",
    )


def _pipeline(fleet: Fleet, rank: int, mine: tuple[Group, ...], phase: str) -> list[Wait]:
    waits = []
    step = -1 if phase in UPSTREAM else 1 if phase in DOWNSTREAM else 0
    if phase == "data" or not step:
        return []
    for group in mine:
        if group.kind != "pp" or len(group.ranks) < 2:
            continue
        order = sorted(group.ranks, key=lambda member: _stage(fleet, member, group))
        at = order.index(rank) + step
        if 0 <= at < len(order):
            what = "activations of the stage before" if step < 0 else "gradients of the stage after"
            if phase == "pp_send":
                what = "the stage after to receive"
            waits.append(Wait(waiter=rank, on=(order[at],), group=group.id, why=f"{phase}: {what}"))
    return waits


def _stage(fleet: Fleet, rank: int, group: Group) -> int:
    return fleet.topology.coordinates_of(rank).get("pp", group.ranks.index(rank))
