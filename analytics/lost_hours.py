"""GPU-hours a run lost: to which cause, in steps far beyond the baseline and in all, and what could be gained.

The baseline is the median step of windows in which nothing was wrong. The excess of a step over it goes to the
incidents open at that step, by what each costs a step; what they do not account for stays unexplained. Steps of
at least twice the baseline are told apart, as the ARGUS paper's 7 % are (argus-paper.md §1). A step that never ended
is in no window: what an attempt stood in one until its last sign of life is lost as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from argus.analytics.incident import Incident
from argus.analytics.inefficiency import Gain
from argus.analytics.lifecycle import is_stop
from argus.analytics.stops import is_in_pause
from argus.analytics.window import Floats
from argus.collectors.records.heartbeat import Status

FAR = 2.0
"""Multiple of the baseline from which on a step counts as far beyond it: the paper's."""

ACCOUNTS = 0.5
"""Incidents that cost half of a window's excess account for all of it: their cost is a mean over windows."""

QUICK = 20.0
"""Percentile that stands for the baseline where every window has an incident: what each cost is a mean over windows."""

LEAST_SHARE = 0.1
"""A healthy step takes at least so much of one with incidents: their costs are estimates."""

UNENDED = "stop.unended"
"""Class of the time in a step that never ended, as far as no incident of a stop accounts for it."""

LONG, HEARD_S = 10.0, 5.0
"""Medians, and seconds, from which on an open step is none that was merely under way at the end."""


@dataclass(frozen=True, kw_only=True)
class Hours:
    """One window of an attempt: the slowest rank of each comparable step, (step,).

    It stands for `weight` windows where not all were read.
    """

    first_step: int
    num_steps: int
    job_step_s: Floats
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Loss:
    """GPU-hours, `share` of those the run used; `far_hours` of them in steps far beyond the baseline."""

    hours: float
    share: float
    far_hours: float
    far_share: float


@dataclass(frozen=True, kw_only=True)
class LostHours:
    """The answer in numbers. `by_class` is by cause class, the costliest first; `unexplained` is no incident's."""

    run: str
    world_size: int
    num_steps: int
    num_far_steps: int
    gpu_hours: float
    baseline_s: float
    lost: Loss
    by_class: Mapping[str, Loss]
    unexplained: Loss
    num_incidents: int
    gains: tuple[Gain, ...]
    lacks: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object `argus report --json` prints."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What one attempt contributes; `open_s` see `open_s`."""

    windows: Sequence[Hours]
    incidents: Sequence[Incident]
    world_size: int
    open_s: float = 0.0


def open_s(statuses: Sequence[Status], *, last_end_ns: int = 0) -> float:
    """Seconds from the end of the last step to the ranks' last sign of life; 0 if that is no longer than a step may
    take, or some rank is in a mark (a save, an evaluation), or none has ended a step.

    `statuses` = the last word of each rank of an attempt that did not end in order.
    """
    started = [status for status in statuses if status.step_since_ns > 0]
    usual_s = float(np.median([status.step_p50_ns for status in started])) * 1e-9 if started else 0.0
    if usual_s <= 0 or any(is_in_pause(status) for status in started):
        return 0.0
    since_ns = max(last_end_ns, *(status.step_since_ns for status in started))
    long_s = (max(status.ts_ns for status in started) - since_ns) * 1e-9
    return long_s if long_s >= max(LONG * usual_s, HEARD_S) else 0.0


def lost_hours(
    run: str, attempts: Sequence[Attempt], *, gains: Sequence[Gain] = (), lacks: Sequence[str] = ()
) -> LostHours | None:
    """What a run lost over its attempts; None if no step of it is known."""
    sums = _Sums()
    for attempt in attempts:
        sums.add(attempt)
    if not sums.num_steps:
        return None
    stopped = sum(sums.stopped.values())
    total = sums.hours + stopped
    known = dict(sums.by_class)
    for name, hours in sums.stopped.items():
        known[name] = np.array([hours, hours])
    explained = sum((pair for pair in sums.by_class.values()), np.zeros(2))
    order = sorted(known, key=lambda name: (-known[name][0], name))
    told = [*lacks, *sums.lacks]
    return LostHours(
        run=run,
        world_size=max(attempt.world_size for attempt in attempts),
        num_steps=round(sums.num_steps),
        num_far_steps=round(sums.num_far),
        gpu_hours=total,
        baseline_s=sums.baseline_s / sums.num_steps,
        lost=_loss(sums.lost + stopped, total),
        by_class={name: _loss(known[name], total) for name in order},
        unexplained=_loss(sums.lost - explained, total),
        num_incidents=sum(len(attempt.incidents) for attempt in attempts),
        gains=tuple(gains),
        lacks=tuple(dict.fromkeys(told)),
    )


def _loss(pair: Floats, total: float) -> Loss:
    hours, far = max(float(pair[0]), 0.0), max(float(pair[1]), 0.0)
    scale = max(total, 1e-12)
    return Loss(hours=hours, share=hours / scale, far_hours=far, far_share=far / scale)


class _Sums:
    """Adds up attempts; pairs are (in all, in steps far beyond the baseline)."""

    def __init__(self) -> None:
        self.hours = self.num_steps = self.num_far = self.baseline_s = 0.0
        self.lost = np.zeros(2)
        self.by_class: dict[str, Floats] = defaultdict(lambda: np.zeros(2))
        self.stopped: dict[str, float] = defaultdict(float)
        self.lacks: list[str] = []

    def add(self, attempt: Attempt) -> None:
        """Take in one attempt."""
        for incident in attempt.incidents:
            if is_stop(incident):
                self.stopped[incident.cause.fault_class] += incident.cost.gpu_hours_so_far
        unended = attempt.open_s * attempt.world_size / 3600 - _told_at_end(attempt)
        if unended > 0:
            self.stopped[UNENDED] += unended
        base_s = self._baseline(attempt)
        if base_s is None:
            return
        for window in attempt.windows:
            self._window(window, attempt, base_s)

    def _baseline(self, attempt: Attempt) -> float | None:
        quiet = [_steps(w) for w in attempt.windows if not _open_at(w, attempt.incidents)]
        every = np.concatenate([np.empty(0), *(_steps(w) for w in attempt.windows)])
        calm = np.concatenate([np.empty(0), *quiet])
        if not every.size:
            return None
        if not calm.size:
            self.lacks.append(
                "a healthy window: the quickest steps, less what incidents cost, stand for the baseline"
            )
            return min(float(np.percentile(every, QUICK)), _without_costs(attempt))
        return float(np.median(calm))

    def _window(self, window: Hours, attempt: Attempt, base_s: float) -> None:
        steps = _steps(window)
        to_hours = attempt.world_size * window.weight / 3600
        excess = np.maximum(steps - base_s, 0.0)
        far = steps >= FAR * base_s
        lost = np.array([excess.sum(), excess[far].sum()]) * to_hours
        self.hours += float(steps.sum()) * to_hours
        self.num_steps += len(steps) * window.weight
        self.num_far += int(far.sum()) * window.weight
        self.baseline_s += base_s * len(steps) * window.weight
        self.lost = self.lost + lost
        costs = [(i, i.cost.s_per_step) for i in _open_at(window, attempt.incidents)]
        claimed, mean = sum(cost for _, cost in costs), float(excess.mean()) if len(excess) else 0.0
        if claimed <= 0 or mean <= 0:
            return
        accounted = 1.0 if claimed >= ACCOUNTS * mean else claimed / mean
        for incident, cost in costs:
            name = incident.cause.fault_class
            self.by_class[name] = self.by_class[name] + lost * accounted * cost / claimed


def _without_costs(attempt: Attempt) -> float:
    """The mean step less what the open incidents cost a step, at least a tenth of it."""
    priced = [
        (_steps(w), sum(i.cost.s_per_step for i in _open_at(w, attempt.incidents))) for w in attempt.windows
    ]
    mean_s = float(np.concatenate([steps for steps, _ in priced]).mean())
    cost_s = sum(cost * len(steps) for steps, cost in priced) / sum(len(steps) for steps, _ in priced)
    return max(mean_s - cost_s, LEAST_SHARE * mean_s)


def _told_at_end(attempt: Attempt) -> float:
    """GPU-hours of the stops that came after the last step of any window."""
    last = max((window.first_step + window.num_steps - 1 for window in attempt.windows), default=0)
    return sum(i.cost.gpu_hours_so_far for i in attempt.incidents if is_stop(i) and i.onset_step >= last)


def _steps(window: Hours) -> Floats:
    steps = window.job_step_s
    return steps[np.isfinite(steps)]


def _open_at(window: Hours, incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents about slow steps that were open in the window."""
    last = window.first_step + window.num_steps - 1
    return [
        incident
        for incident in incidents
        if not is_stop(incident)
        and incident.cause.verdict != "NO_FAULT"
        and incident.onset_step <= last
        and (incident.end_step is None or incident.end_step >= window.first_step)
    ]
