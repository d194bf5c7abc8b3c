"""In which order the records of a simulated job reach the service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from argus.collectors.host.window import cut
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
    windows = _closed_windows(simulation, WindowPlan())
    for moment in sorted([*windows, *(Moment(now_s=float(now_s)) for now_s in beats_at)], key=_when):
        yield moment if moment.parts else replace(moment, beats=simulation.beats(moment.now_s))


def _when(moment: Moment) -> float:
    return moment.now_s


def _closed_windows(simulation: Simulation, plan: WindowPlan) -> Iterator[Moment]:
    """Each window all ranks have finished, when its last part has arrived."""
    parts: dict[int, list[RankWindow]] = defaultdict(list)
    for records in simulation.records:
        for part in cut(records, plan):
            parts[part.window].append(part)
    for index, members in sorted(parts.items()):
        last_step = min(plan.bounds(index)[1], simulation.job.steps) - 1
        closed_s = float(simulation.timeline.end[last_step].max())
        if np.isfinite(closed_s):
            yield Moment(now_s=simulation.job.start_s + closed_s + DELIVERY_S, parts=tuple(members))


def _is_over(simulation: Simulation) -> bool:
    return bool(np.isfinite(simulation.timeline.end[-1]).all())
