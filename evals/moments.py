"""In which order the records of a simulated job reach the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge

import numpy as np

from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.simulate import Simulation

BEAT_PERIOD_S = 5.0
"""Heartbeats go out once in so many seconds per host."""

DELIVERY_S = 1.0
"""From the end of a window's last step to its arrival."""

WATCH_STOPPED_S = 180.0
"""How long a job that stands still is watched on: three times the minute after which it counts as stopped."""

WATCH_ENDED_S = 10.0

BEATING_RANKS = 512
"""Larger jobs that run to their end beat once, at the end: before, thousands of beats would say what windows do."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something reaches the service at Unix time `now_s`: all parts of a window, or heartbeats."""

    now_s: float
    parts: tuple[RankWindow, ...] = ()
    beats: tuple[Heartbeat, ...] = ()


def moments(simulation: Simulation) -> Iterator[Moment]:
    """Windows and heartbeats in order of arrival."""
    end_s = simulation.last_end_s + (WATCH_ENDED_S if _is_over(simulation) else WATCH_STOPPED_S)
    beats_at = np.arange(simulation.job.start_s + BEAT_PERIOD_S, end_s, BEAT_PERIOD_S)
    if _is_over(simulation) and simulation.job.ranks > BEATING_RANKS:
        beats_at = beats_at[-1:]
    windows = _closed_windows(simulation, WindowPlan())
    for moment in merge(windows, (Moment(now_s=float(now_s)) for now_s in beats_at), key=_when):
        yield moment if moment.parts else replace(moment, beats=simulation.beats(moment.now_s))


def _when(moment: Moment) -> float:
    return moment.now_s


def _closed_windows(simulation: Simulation, plan: WindowPlan) -> Iterator[Moment]:
    """Each window all ranks have finished, when its last part has arrived."""
    for closed in simulation.windows(plan):
        if closed.parts:
            yield Moment(now_s=simulation.job.start_s + closed.end_s + DELIVERY_S, parts=closed.parts)


def _is_over(simulation: Simulation) -> bool:
    return bool(np.isfinite(simulation.end_s[-1]).all())
