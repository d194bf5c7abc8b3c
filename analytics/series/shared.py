"""Slowdowns that the ranks of a job share, each told once for the job and not for one of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from argus.analytics.incident import Incident
from argus.analytics.series.recorded import END, START
from argus.analytics.series.rise import SIDE

APART = 1.1
"""Times the others' a rank's own step time, or the growth of it, is when that is worth a word."""

TOGETHER = SIDE
"""Values of a series by which one change may lie apart on two ranks: it is placed among so many on either side."""


@dataclass(frozen=True, kw_only=True)
class SharedSlowdown:
    """One incident for a job, and the ranks' own that are parts of it."""

    incident: Incident
    parts: tuple[Incident, ...]


def shared_slowdowns(name: str, ranks: Sequence[Sequence[Incident]]) -> tuple[SharedSlowdown, ...]:
    """What most of a job's ranks have at the same place and about as much of; `ranks` = each one's incidents.

    Ranks of a synchronous job wait for one another, so that their steps get longer alike whoever is at fault.
    Where the steps of one grow by `APART` times as much as the others', nothing is shared: that rank is told.
    """
    found: list[SharedSlowdown] = []
    taken: set[str] = set()
    for first in (one for own in ranks for one in own):
        if first.id in taken:
            continue
        parts = [part for own in ranks if (part := _beside(first, own, taken)) is not None]
        usual = median(_growth(part) for part in parts)
        if 2 * len(parts) > len(ranks) > 1 and max(map(_growth, parts)) < APART * usual:
            taken.update(part.id for part in parts)
            found.append(SharedSlowdown(incident=_joint(name, parts, usual), parts=tuple(parts)))
    return tuple(found)


def _beside(first: Incident, own: Sequence[Incident], taken: set[str]) -> Incident | None:
    """The rank's incident that begins and ends where `first` does, None without."""
    near = (
        one
        for one in own
        if one.id not in taken
        and one.status == first.status
        and all(abs(_place(one, key) - _place(first, key)) <= TOGETHER for key in (START, END))
    )
    return next(near, None)


def _place(incident: Incident, key: str) -> float:
    return next(item.value for item in incident.cause.evidence if item.name == key)


def _growth(incident: Incident) -> float:
    """Times what it was the step is now."""
    step = next(item for item in incident.cause.evidence if item.name == "step_s")
    return step.value / step.baseline if step.baseline else 1.0


def _joint(name: str, parts: Sequence[Incident], usual: float) -> Incident:
    """The part that grew as most did, as an incident of the whole job at the cost of all parts."""
    part = min(parts, key=lambda one: abs(_growth(one) - usual))
    cost = replace(
        part.cost,
        gpu_hours_so_far=sum(one.cost.gpu_hours_so_far for one in parts),
        gpu_hours_per_day=sum(one.cost.gpu_hours_per_day for one in parts),
    )
    return replace(part, run=name, cause=replace(part.cause, scope=f"run:{name}"), cost=cost)
