"""Long pauses of single steps that the runtime itself tells of: compilations, collections, waits for data.

A mean over a window hides them (incidents.md Part 4, trap 4): one in a hundred steps that takes forty times as
long is a third of the job's time and no rank's habit. So each of them is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from argus.analytics.window import Floats, Window

KINDS = ("compile", "gc")
LOADER = "loader_wait"

EVERYBODY = -1
"""In place of a rank: all of them stood still, each at least so long."""

NEARLY_ALL = 0.1
"""Quantile of the ranks' waits for data that everybody waits at least; one rank's is its own matter."""

MIN_STEPS = 0.1
"""A pause the runtime tells of is worth remembering from a tenth of a step on: once in ten steps, and others at other
times, that is a per cent of the job. Routine collections take a fiftieth."""

MIN_WAIT_STEPS = 0.5
"""Waiting for data is part of many a healthy step: it is a pause where it takes half of one."""

MIN_PAUSES = 3
"""One is an accident, two are a coincidence."""

MIN_SHARE = 0.01
"""Of the time: a pause of one step in a hundred."""

REGULAR = 2.0
"""Pauses whose longest distance is at most so many times the shortest come by a count, as collections do; those of
compilations grow rare."""

OVERDUE = 1.25
"""What comes regularly is over once it stays away for so many times its longest distance."""

MAX_KEPT = 16
"""Pauses of one window that are kept: the longest of every step, then the longest others."""


@dataclass(frozen=True, kw_only=True)
class Pause:
    """One rank, or everybody, stood still for `dur_s` in `step`; `kind` is the runtime's word for it."""

    kind: str
    rank: int
    step: int
    dur_s: float


def pauses_of(window: Window) -> tuple[Pause, ...]:
    """The longest pauses of a window's usable steps, in order of step and rank."""
    if not np.isfinite(window.step_s).any():
        return ()
    step_s = float(np.nanmedian(window.step_s))
    usable = set(window.steps[window.usable].tolist())
    told: dict[tuple[str, int, int], float] = {}
    for event in chain.from_iterable(window.events.of_kind(kind) for kind in KINDS):
        if event.step in usable and np.isfinite(event.dur_s):
            key = (event.kind, event.step, event.rank)
            told[key] = told.get(key, 0.0) + event.dur_s
    found = [
        Pause(kind=kind, rank=rank, step=step, dur_s=dur)
        for (kind, step, rank), dur in told.items()
        if dur >= MIN_STEPS * step_s
    ]
    found += _of_everybody(window, least_s=MIN_WAIT_STEPS * step_s)
    found.sort(key=lambda pause: (-pause.dur_s, pause.step, pause.rank))
    first = {(pause.kind, pause.step): pause for pause in reversed(found)}
    costliest = sorted(found, key=lambda pause: first[pause.kind, pause.step] is not pause)[:MAX_KEPT]
    return tuple(sorted(costliest, key=lambda pause: (pause.step, pause.rank, pause.kind)))


def longest_s(pauses: Iterable[Pause]) -> float:
    """Seconds lost to pauses: of a step the longest counts, for the others run beside it."""
    longest: dict[int, float] = {}
    for pause in pauses:
        longest[pause.step] = max(longest.get(pause.step, 0.0), pause.dur_s)
    return sum(longest.values())


def are_due(pauses: Iterable[Pause], *, last_step: int) -> bool:
    """Whether several ranks pause together regularly and the next time is not overdue at `last_step`.

    >>> both = [Pause(kind="gc", rank=rank, step=step, dur_s=1.0) for step in (30, 70, 110) for rank in (0, 1)]
    >>> are_due(both, last_step=149), are_due(both, last_step=170), are_due(both[::2], last_step=149)
    (True, False, False)
    """
    ranks: dict[int, set[int]] = {}
    for pause in pauses:
        ranks.setdefault(pause.step, set()).add(pause.rank)
    steps = sorted(step for step, those in ranks.items() if len(those) > 1 or EVERYBODY in those)
    gaps = [after - before for before, after in pairwise(steps)]
    if len(steps) < MIN_PAUSES or max(gaps) > REGULAR * min(gaps):
        return False
    return last_step - steps[-1] <= OVERDUE * max(gaps)


def told_s(window: Window) -> Floats:
    """Seconds of each rank's steps that its runtime says it compiled or collected in. (rank, step)"""
    lost_s = np.zeros((len(window.ranks), len(window.steps)))
    for kind in KINDS:
        events = window.events.of_kind(kind)
        known = (
            np.isin(events.step, window.steps)
            & np.isin(events.rank, window.ranks)
            & np.isfinite(events.dur_s)
        )
        rank = np.searchsorted(window.ranks, events.rank[known])
        np.add.at(lost_s, (rank, np.searchsorted(window.steps, events.step[known])), events.dur_s[known])
    return lost_s


def _of_everybody(window: Window, *, least_s: float) -> list[Pause]:
    """Steps in which nearly all ranks waited long for their data."""
    events = window.events.of_kind(LOADER)
    counts = np.isin(events.step, window.steps[window.usable])
    if not counts.any():
        return []
    dur_s = np.nan_to_num(events.dur_s[counts], posinf=0.0, neginf=0.0)
    steps, step = np.unique(events.step[counts], return_inverse=True)
    waited_s = np.zeros((len(steps), len(window.ranks)))
    np.add.at(waited_s, (step, np.searchsorted(window.ranks, events.rank[counts])), dur_s)
    least = np.quantile(waited_s, NEARLY_ALL, axis=1, method="lower")
    return [
        Pause(kind=LOADER, rank=EVERYBODY, step=int(steps[at]), dur_s=float(least[at]))
        for at in np.flatnonzero(least >= least_s)
    ]
