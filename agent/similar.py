"""Past incidents that resemble one: same class first, then what else they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from argus.analytics.incident import Incident
from argus.topology.facts import kind_of_id

MAX_SUSPECTS = 16
"""Suspects whose hosts are looked up."""

Hosts = Callable[[str, int, Sequence[int]], Mapping[int, str]]
"""Hosts of ranks of (run, attempt)."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """A past incident, where it was, and what it has in common with the one in question."""

    incident: Incident
    hosts: tuple[str, ...]
    same: tuple[str, ...]


def similar_to(mine: Incident, past: Sequence[Incident], *, hosts: Hosts) -> tuple[Likeness, ...]:
    """Incidents of the same class, those on the same hardware first, then by how much they share."""
    here = _hosts(mine, hosts)
    found = [
        Likeness(incident=one, hosts=(there := _hosts(one, hosts)), same=_same(mine, one, here, there))
        for one in past
        if one.id != mine.id and one.cause.fault_class == mine.cause.fault_class
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.same), "host" not in one.same)))


def _hosts(incident: Incident, hosts: Hosts) -> tuple[str, ...]:
    named = hosts(incident.run, incident.attempt, incident.cause.suspects[:MAX_SUSPECTS])
    return tuple(sorted({host for host in named.values() if host}))


def _same(mine: Incident, other: Incident, here: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    ours, theirs = mine.cause, other.cause
    claims = {
        "class": True,
        "host": bool(set(here) & set(there)),
        "scope kind": kind_of_id(ours.scope) == kind_of_id(theirs.scope),
        "phase": ours.phase is not None and ours.phase == theirs.phase,
        "group": ours.group is not None and ours.group == theirs.group,
        "run": mine.run == other.run,
    }
    return tuple(name for name, holds in claims.items() if holds)
