"""Past incidents that resemble one: same class first, then what else they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from argus.agent.facts import PastIncident
from argus.analytics.incident import Incident
from argus.topology.collect import gpu_id
from argus.topology.facts import kind_of_id

MAX_SUSPECTS = 16
"""Suspects whose hosts are looked up."""

Units = Callable[[str, int, Sequence[int]], Mapping[int, tuple[str, str]]]
"""Host and device of ranks of (run, attempt)."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """A past incident, how its run is called by now, when and where it was, and what it has in common with this one."""

    incident: Incident
    run: str
    opened_s: float | None
    hosts: tuple[str, ...]
    same: tuple[str, ...]


def similar_to(mine: Incident, past: Sequence[PastIncident], *, units: Units) -> tuple[Likeness, ...]:
    """Incidents of the same class, those on the same hardware first, then by how much they share."""
    here = _units(mine, mine.run, units)
    found = []
    for one in past:
        other = one.incident
        if other.id == mine.id or other.cause.fault_class != mine.cause.fault_class:
            continue
        there = _units(other, one.run, units)
        found.append(
            Likeness(
                incident=other,
                run=one.run,
                opened_s=one.opened_s,
                hosts=tuple(sorted({host for host, _ in there if host})),
                same=_same(mine, other, here, there),
            )
        )
    return tuple(sorted(found, key=lambda one: (-len(one.same), "host" not in one.same)))


def _units(incident: Incident, run: str, units: Units) -> frozenset[tuple[str, str]]:
    return frozenset(units(run, incident.attempt, incident.cause.suspects[:MAX_SUSPECTS]).values())


def _same(
    mine: Incident, other: Incident, here: frozenset[tuple[str, str]], there: frozenset[tuple[str, str]]
) -> tuple[str, ...]:
    ours, theirs = mine.cause, other.cause
    gpus, others_gpus = ({gpu_id(*unit) for unit in units if unit[1]} for units in (here, there))
    hosts, others_hosts = ({host for host, _ in units if host} for units in (here, there))
    claims = {
        "class": True,
        "gpu": bool(gpus & others_gpus),
        "host": bool(hosts & others_hosts),
        "scope kind": kind_of_id(ours.scope) == kind_of_id(theirs.scope),
        "phase": ours.phase is not None and ours.phase == theirs.phase,
        "group": ours.group is not None and ours.group == theirs.group,
        "run": mine.run == other.run,
    }
    return tuple(name for name, holds in claims.items() if holds)
