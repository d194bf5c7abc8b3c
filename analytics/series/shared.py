"""Slowdowns that the ranks of a job share, each told once for the job and not for one of its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from argus.analytics.incident import Incident
from argus.analytics.series.alongside import Alongside
from argus.analytics.series.recorded import END, START
from argus.analytics.series.rise import HALF, SIDE

APART = 1.1
"""Times the others' a rank's own step time, or the growth of it, is when that is worth a word."""

TOGETHER = SIDE
"""Values of a series by which one change may lie apart on two ranks: it is placed among so many on either side."""


@dataclass(frozen=True, kw_only=True)
class SharedSlowdown:
    """One incident for a job from place `first` to `last`, and the ranks' own that are parts of it.

    `num_ranks` slow down alike, also those in which it was not told.
    """

    incident: Incident
    parts: tuple[Incident, ...]
    first: int
    last: int
    num_ranks: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Own:
    """The incident of one rank, from place to place of the job."""

    row: int
    incident: Incident
    first: int
    last: int


def shared_slowdowns(
    name: str, ranks: Sequence[Sequence[Incident]], *, job: Alongside
) -> tuple[SharedSlowdown, ...]:
    """What most of a job's ranks have at the same place and about as much of; `ranks` = each one's incidents, as in `job`.

    Ranks of a synchronous job wait for one another, so that their steps get longer alike whoever is at fault. Noise has
    some told of a few ranks alone, or at another place: what the others' steps show as well is shared all the same.
    Where the steps of one grow by `APART` times as much as the others', nothing is shared: that rank is told.
    """
    whole = [_own(row, one, job) for row, own in enumerate(ranks) for one in own]
    left = {own.incident.id: own for own in whole}
    found: list[SharedSlowdown] = []
    for one in whole:
        parts = _beside(one, left.values(), job) if one.incident.id in left else []
        if 2 * len(parts) > len(ranks) > 1:
            left = {key: own for key, own in left.items() if own not in parts}
            found += [] if _is_led(parts, job) else [_joint(name, parts, job)]
    for one in sorted(whole, key=lambda own: own.first - own.last):
        if one.incident.id not in left or not _is_common(one, job):
            continue
        at = next((at for at, slow in enumerate(found) if _covers(slow, one, job)), None)
        parts = [one] if at is not None else _beside(one, left.values(), job)
        left = {key: own for key, own in left.items() if own not in parts}
        if at is None:
            found.append(_joint(name, parts, job))
        else:
            found[at] = replace(found[at], parts=(*found[at].parts, one.incident))
    return tuple(found)


def _own(row: int, incident: Incident, job: Alongside) -> _Own:
    first, last = (int(job.places[row][int(_value(incident, key))]) for key in (START, END))
    return _Own(row=row, incident=incident, first=first, last=last)


def _value(incident: Incident, key: str) -> float:
    return next(item.value for item in incident.cause.evidence if item.name == key)


def _beside(one: _Own, others: Iterable[_Own], job: Alongside) -> list[_Own]:
    """One of each rank that begins and ends where `one` does."""
    far = TOGETHER * job.apart
    found: dict[int, _Own] = {one.row: one}
    for other in others:
        is_near = max(abs(other.first - one.first), abs(other.last - one.last)) <= far
        if is_near and other.incident.status == one.incident.status:
            found.setdefault(other.row, other)
    return [found[row] for row in sorted(found)]


def _is_led(parts: Sequence[_Own], job: Alongside) -> bool:
    """Whether one of them grew so much more than the others that these may only wait for it."""
    usual = median(map(_growth, parts))
    return any(_growth(one) >= APART * usual and not _is_common(one, job) for one in parts)


def _is_common(one: _Own, job: Alongside) -> bool:
    """Whether the steps of the other ranks rise at its place as well, and about as much as its own."""
    rises = job.rises(one.first, one.last)
    own, others = rises[one.row], np.delete(rises, one.row)
    others = others[np.isfinite(others)]
    if not len(others) or not own >= HALF * float(np.log(_growth(one))):
        return False  # a burst lifts no median
    usual = float(np.median(others))
    return bool(usual >= HALF * own and own < np.log(APART) + usual)


def _covers(slow: SharedSlowdown, one: _Own, job: Alongside) -> bool:
    far = TOGETHER * job.apart
    return slow.first - far <= one.first <= slow.last + far


def _growth(own: _Own) -> float:
    """Times what it was the step is now."""
    step = next(item for item in own.incident.cause.evidence if item.name == "step_s")
    return step.value / step.baseline if step.baseline else 1.0


def _joint(name: str, parts: Sequence[_Own], job: Alongside) -> SharedSlowdown:
    """The part that grew as most did, as an incident of the whole job at the cost of all ranks that have it."""
    usual = median(map(_growth, parts))
    part = min(parts, key=lambda own: abs(_growth(own) - usual))
    alike = job.rises(part.first, part.last) >= HALF * float(np.log(usual))
    num = len({own.row for own in parts} | set(np.flatnonzero(alike).tolist()))
    cost = replace(
        part.incident.cost,
        gpu_hours_so_far=num * fmean(own.incident.cost.gpu_hours_so_far for own in parts),
        gpu_hours_per_day=num * fmean(own.incident.cost.gpu_hours_per_day for own in parts),
    )
    cause = replace(part.incident.cause, scope=f"run:{name}")
    return SharedSlowdown(
        incident=replace(part.incident, run=name, cause=cause, cost=cost),
        parts=tuple(own.incident for own in parts),
        first=part.first,
        last=part.last,
        num_ranks=num,
    )
