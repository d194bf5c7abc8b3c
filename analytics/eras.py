"""What is remembered of a whole job's step times for weeks: windows folded into stretches, stretches into longer ones.

The last windows alone do not tell a job that grows by 1 % a day from one that stays: each level reaches `FOLD` times
as far back as the one below in as many values, so that what is remembered of a month is as small as what is
remembered of an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from argus.analytics.robust import middle
from argus.analytics.window import Floats, Ints

FOLD = 8
"""Stretches that become one of the next level: their median is worth more than each, and a trend has many such."""

LEVELS = 4
"""With windows of a minute stretches of 8 minutes, 1 hour, 9 hours and 3 days."""

KEPT = 60
"""Stretches of a level that are kept, as of windows."""


class Times(Protocol):
    """What the whole job did, over a window or several; arrays over ranks hold one value where they are medians."""

    @property
    def first_step(self) -> int:
        """The first step of it."""

    @property
    def num_steps(self) -> int:
        """Its steps."""

    @property
    def steps(self) -> Ints:
        """Steps that `job_step_s` is of. (place,)"""

    @property
    def job_step_s(self) -> Floats:
        """Seconds of the slowest rank, of a step or the median of several. (place,)"""

    @property
    def typical_step_s(self) -> float:
        """Seconds of a step of the median rank."""

    @property
    def own_s(self) -> Floats:
        """Own work in seconds a step. (rank,)"""

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases."""

    @property
    def self_s(self) -> Floats:
        """Own seconds a step. (phase, rank)"""

    @property
    def amount(self) -> tuple[str, float] | None:
        """Work of a step with its unit, as far as known."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Windows that follow one another, told as `Times`: medians over ranks, then over windows."""

    first_step: int
    num_steps: int
    steps: Ints
    job_step_s: Floats
    typical_step_s: float
    own_s: Floats
    phases: tuple[str, ...]
    self_s: Floats
    amount: tuple[str, float] | None


@dataclass(frozen=True, kw_only=True)
class Eras:
    """`levels` of stretches, oldest first: level n holds the last of `FOLD` ** n windows each, of which there were
    `counts`; windows up to the index `taken` are in it."""

    levels: tuple[tuple[Stretch, ...], ...] = ((),) * (LEVELS + 1)
    counts: tuple[int, ...] = (0,) * (LEVELS + 1)
    taken: int = -1

    def after(self, window: int, seen: Times | None) -> Eras:
        """With one more window, None if it says nothing of how fast the job is; one that was taken changes nothing."""
        if window <= self.taken:
            return self
        eras = replace(self, taken=window)
        return eras if seen is None else eras._with(stretch_of([seen]), 0)

    def _with(self, stretch: Stretch, level: int) -> Eras:
        row, count = (*self.levels[level], stretch)[-KEPT:], self.counts[level] + 1
        eras = replace(
            self,
            levels=(*self.levels[:level], row, *self.levels[level + 1 :]),
            counts=(*self.counts[:level], count, *self.counts[level + 1 :]),
        )
        if count % FOLD or level == LEVELS:
            return eras
        return eras._with(stretch_of(row[-FOLD:]), level + 1)


def places(num: int) -> tuple[tuple[int, ...], ...]:
    """Of `num` windows in order those that stand for the stretches of each level: the middle one of each.

    >>> places(20)[:2]
    ((12, 13, 14, 15, 16, 17, 18, 19), (4, 12))
    """
    found = []
    for level in range(LEVELS + 1):
        size = FOLD**level
        first = max(num // size - (KEPT if level else FOLD), 0)
        found.append(tuple(n * size + size // 2 for n in range(first, num // size)))
    return tuple(found)


def eras_of(seen: Mapping[int, Times], *, num: int, taken: int) -> Eras:
    """What would be remembered of `num` windows, up to the index `taken`, by those at `places` alone."""
    levels = []
    for level, here in enumerate(places(num)):
        parts = [stretch_of([seen[place]]) for place in here if place in seen]
        size = FOLD**level
        levels.append(tuple(replace(part, num_steps=part.num_steps * size) for part in parts))
    counts = tuple(num // FOLD**level for level in range(LEVELS + 1))
    return Eras(levels=tuple(levels), counts=counts, taken=taken)


def stretch_of(parts: Sequence[Times]) -> Stretch:
    """Several as one, for as much work a step as the median of them has."""
    first, last = parts[0], parts[-1]
    amount = _amount(parts)
    scale = [1.0 if amount is None or one.amount is None else amount[1] / one.amount[1] for one in parts]
    phases = tuple(name for name in last.phases if all(name in one.phases for one in parts))
    own = [middle(one.own_s) * by for one, by in zip(parts, scale, strict=True)]
    typical = [one.typical_step_s * by for one, by in zip(parts, scale, strict=True)]
    times = [middle(one.job_step_s) * by for one, by in zip(parts, scale, strict=True)]
    selves = [
        [middle(one.self_s[one.phases.index(name)]) * by for one, by in zip(parts, scale, strict=True)]
        for name in phases
    ]
    return Stretch(
        first_step=first.first_step,
        num_steps=sum(one.num_steps for one in parts),
        steps=np.array([one.first_step for one in parts]),
        job_step_s=np.array(times),
        typical_step_s=middle(np.array(typical)),
        own_s=np.array([middle(np.array(own))]),
        phases=phases,
        self_s=np.array([[middle(np.array(row))] for row in selves]).reshape(len(phases), 1),
        amount=amount,
    )


def _amount(parts: Sequence[Times]) -> tuple[str, float] | None:
    """The median work of a step; None unless all know it in one unit."""
    known = [one.amount for one in parts if one.amount is not None]
    if len(known) < len(parts) or len({unit for unit, _ in known}) > 1 or min(work for _, work in known) <= 0:
        return None
    return known[0][0], float(np.median([work for _, work in known]))
