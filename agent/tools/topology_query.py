"""Relations of ranks, groups and hardware: who is where, with whom, over what, waiting on whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Literal

from argus.agent.context import ToolContext, as_of, fleet_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, MAX_NAME
from argus.agent.schema import ArgumentError
from argus.collectors.records.text import tame
from argus.topology.facts import kind_of_id, name_of_id
from argus.topology.fleet import Fleet
from argus.topology.paths import path_between
from argus.topology.reach import PHASE_KINDS, waiters_on, waits_of
from argus.topology.words import describe_element

MAX_LIST = 64
"""Ranks or elements of one list."""


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    what: Literal["about", "members", "peers", "path", "waits_on", "waiters"],
    node: Annotated[str, "kind:name, such as rank:3, host:h-1, group:dp/0, leaf:2"],
    other: Annotated[str | None, "for path: the other rank"],
    phase: Annotated[str | None, "for peers, waits_on, waiters; null = forward"],
) -> Answer:
    """Ask the topology: about (place, groups, coordinates), members, peers (ranks of the same work),
    path between two ranks, waits_on (on whom a rank waits in a phase), waiters (who waits on it)."""
    facts = context.of_run(run)
    fleet = fleet_of(facts)
    element = fleet.element(node)
    if what == "path":
        data = _path(fleet, _rank(element), _rank(fleet.element(other or _missing("other"))))
    elif what in _OF_RANK:
        data = _OF_RANK[what](fleet, _rank(element), _phase(phase))
    else:
        data = _about(fleet, element) if what == "about" else _listed(fleet.ranks_of(element))
    cut = tuple(Cut(path=f"/{key}", shown=MAX_LIST, total=len(v)) for key, v in data.items() if _is_long(v))
    data = {key: value[:MAX_LIST] if _is_long(value) else value for key, value in data.items()}
    return Answer(data={"node": tame(element, MAX_NAME), **data}, as_of=as_of(facts), cut=cut)


def _is_long(value: object) -> bool:
    return isinstance(value, list) and len(value) > MAX_LIST


def _missing(name: str) -> str:
    raise ArgumentError(f"{name} is missing: a path has two ends")


def _rank(element: str) -> int:
    if kind_of_id(element) != "rank":
        raise ArgumentError(f"node must be a rank here, got {tame(element, 80)!r}")
    return int(name_of_id(element))


def _phase(phase: str | None) -> str:
    if phase is not None and phase not in PHASE_KINDS:
        raise ArgumentError(f"phase must be one of {', '.join(PHASE_KINDS)}, got {phase[:40]!r}")
    return phase or "forward"


def _about(fleet: Fleet, element: str) -> Json:
    members = fleet.ranks_of(element)
    data: Json = {"text": tame(describe_element(fleet, element), 400), "num_ranks": len(members)}
    if kind_of_id(element) != "rank":
        return {**data, "ranks": list(members)}
    rank = int(name_of_id(element))
    return {
        **data,
        "coordinates": [{"dim": k, "at": v} for k, v in fleet.topology.coordinates_of(rank).items()],
        "groups": [{"group": g.id, "size": len(g.ranks)} for g in fleet.topology.groups_of(rank)],
        "above": [
            tame(one, MAX_NAME) for one in fleet.elements_of(rank) if not one.startswith(("group:", "rank:"))
        ],
    }


def _listed(ranks: tuple[int, ...]) -> Json:
    return {"num_ranks": len(ranks), "ranks": list(ranks)}


def _path(fleet: Fleet, source: int, target: int) -> Json:
    path = asdict(path_between(fleet, source=source, target=target))
    return {**path, "hops": [[tame(one, MAX_NAME) for one in hop[:8]] for hop in path["hops"]]}


def _peers(fleet: Fleet, rank: int, phase: str) -> Json:
    return _listed(fleet.topology.peers_of(rank, phase))


def _waits_on(fleet: Fleet, rank: int, phase: str) -> Json:
    waits = waits_of(fleet, rank, phase=phase)
    return {
        "waits": [
            {"group": one.group, "why": one.why, "num_ranks": len(one.on), "on": list(one.on[:16])}
            for one in waits
        ]
    }


def _waiters(fleet: Fleet, rank: int, phase: str) -> Json:
    return _listed(waiters_on(fleet, rank, phase=phase))


_OF_RANK: Mapping[str, Callable[[Fleet, int, str], Json]] = {
    "peers": _peers,
    "waits_on": _waits_on,
    "waiters": _waiters,
}
