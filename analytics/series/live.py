"""The step times of a running attempt: of the job, the slowest rank of each step, and of each rank against the rest.

In synchronous training every rank waits for the slowest, so the job's series says when, and a rank's own says
something only where it leaves the others: its step time is taken over the median of all ranks in that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argus.analytics.robust import median_of_columns
from argus.analytics.series.event import Event
from argus.analytics.series.follow import Followed, follow
from argus.analytics.series.rhythm import HISTORY
from argus.analytics.series.track import Tracks, observe, regroup
from argus.analytics.window import Floats, Ints, Window

SAME = 5
"""Events that begin within so many steps of one another are one."""

MOST = 0.5
"""What happens to more than this share of the ranks at once happens to the job."""


@dataclass(frozen=True, kw_only=True)
class LiveSeries:
    """What is remembered of an attempt's step times; place p of every series is step `first_step` + p."""

    first_step: int = 0
    job: Followed = field(default_factory=Followed)
    ranks: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    apart: Tracks = field(default_factory=lambda: Tracks.start(0))


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What one window brought: `series` after it, events of the `job` with places as steps, and events of `ranks`
    that left the others, each with the ranks it happened to."""

    series: LiveSeries
    job: tuple[Event, ...]
    ranks: tuple[tuple[Event, tuple[int, ...]], ...]


def job_series(window: Window) -> Floats:
    """Slowest rank of each step; NaN where the step is unusable or unseen. (step,)"""
    return np.where(window.usable, _slowest(window.step_s), np.nan)


def hear(series: LiveSeries, window: Window) -> Heard:
    """One more window; steps that never came are places without a value."""
    gap = window.first_step - series.first_step - series.job.tracks.count
    if gap < 0 or gap > HISTORY:
        series, gap = LiveSeries(first_step=window.first_step), 0
    series = replace(series, apart=_seated(series, window.ranks), ranks=window.ranks)
    missing = np.full(gap, np.nan)
    job, events = follow(
        series.job,
        np.concatenate([missing, job_series(window)]),
        took_s=np.concatenate([missing, _slowest(window.step_s)]),
    )
    lone = np.concatenate([np.full((len(window.ranks), gap), np.nan), _apart(window)], axis=1)
    apart, rank_events = observe(series.apart, lone)
    steps = [_at_steps(event, series.first_step) for event in events]
    typical = float(np.nanmedian(window.step_s)) if np.isfinite(window.step_s).any() else 1.0
    own = [
        _at_steps(_in_seconds(event, typical), series.first_step) for event in rank_events if event.ratio > 1
    ]
    return Heard(
        series=replace(series, job=job, apart=apart),
        job=tuple(steps),
        ranks=tuple(_shared(own, window.ranks)),
    )


def _slowest(step_s: Floats) -> Floats:
    slowest = np.where(np.isfinite(step_s), step_s, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(np.isfinite(slowest), slowest, np.nan)


def _apart(window: Window) -> Floats:
    """Each rank's step over the median of all in that step, NaN where that is no time. (rank, step)"""
    values = np.full(window.step_s.shape, np.nan)
    seen = window.usable & np.isfinite(window.step_s).any(axis=0)
    median = median_of_columns(window.step_s[:, seen])
    values[:, seen] = window.step_s[:, seen] / np.where(median > 0, median, np.nan)
    return values


def _seated(series: LiveSeries, ranks: Ints) -> Tracks:
    """The ranks' tracks with a row for each of `ranks`: some may have joined, some have gone."""
    if np.array_equal(series.ranks, ranks):
        return series.apart
    if not len(series.ranks):
        return replace(Tracks.start(len(ranks)), count=series.job.tracks.count)
    where = np.searchsorted(series.ranks, ranks)
    known = np.minimum(where, len(series.ranks) - 1)
    return regroup(series.apart, np.where(series.ranks[known] == ranks, known, -1))


def _at_steps(event: Event, first_step: int) -> Event:
    return replace(
        event,
        start=event.start + first_step,
        end=event.end + first_step,
        instead_of=None if event.instead_of is None else event.instead_of + first_step,
    )


def _in_seconds(event: Event, typical_s: float) -> Event:
    """A rank's event is one of ratios; seconds are those of the usual step."""
    return replace(event, got=event.got * typical_s, expected=event.expected * typical_s)


def _shared(own: Sequence[Event], ranks: Ints) -> list[tuple[Event, tuple[int, ...]]]:
    """Events of ranks, one for all that share it; what most of them share is the job's."""
    found: list[tuple[Event, tuple[int, ...]]] = []
    ordered = sorted(own, key=lambda event: (event.kind, event.start, event.series))
    begin = 0
    while begin < len(ordered):
        first, end = ordered[begin], begin
        while (
            end < len(ordered)
            and ordered[end].kind == first.kind
            and ordered[end].start - first.start <= SAME
        ):
            end += 1
        mine, begin = ordered[begin:end], end
        here = tuple(sorted({int(ranks[event.series]) for event in mine}))
        if len(here) <= MOST * len(ranks):
            found.append((max(mine, key=lambda event: event.ratio), here))
    return found
