"""Play a simulated job through the one path, in the order a service would see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.incident import Incident
from argus.analytics.window import assemble
from argus.collectors.host.window import cut
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.simulate import Simulation
from argus.topology.layout import build

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


@dataclass(frozen=True, kw_only=True)
class Played:
    """The incidents of a job in their last state, in order of opening, and when each was first told."""

    incidents: tuple[Incident, ...]
    told_s: tuple[float, ...]
    num_findings: int
    num_windows: int


def play(simulation: Simulation) -> Played:
    """Everything the analysis says of `simulation`, from its start to some time after its end."""
    topology = build(simulation.layouts)
    state = AttemptState.start(simulation.job.run, simulation.job.attempt)
    last: dict[str, Incident] = {}
    told: dict[str, float] = {}
    num_findings = num_windows = 0
    for moment in moments(simulation, topology):
        step = advance(state, topology=topology, now_s=moment.now_s, window=moment.window, beats=moment.beats)
        state = step.state
        num_findings += len(step.findings)
        num_windows += moment.window is not None
        for incident in step.incidents:
            last[incident.id] = incident
            told.setdefault(incident.id, moment.now_s)
    return Played(
        incidents=tuple(last.values()),
        told_s=tuple(told.values()),
        num_findings=num_findings,
        num_windows=num_windows,
    )


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
