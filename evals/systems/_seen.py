"""What a simple system is shown, what it says, and how that becomes incidents that are scored as ours are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.clocks import align
from argus.analytics.incident import Cause, Cost, Incident
from argus.analytics.window import Floats, Window, assemble
from argus.evals.moments import Moment, moments
from argus.evals.simulator.simulate import Simulation
from argus.topology.layout import build

NO_COST = Cost(
    s_per_step=0.0, share_of_step=0.0, gpu_hours_so_far=0.0, gpu_hours_per_day=0.0, method="not estimated"
)

QUIET_WINDOWS = 3
"""A suspicion that is not said again in so many windows is over; said later, it is a new incident."""

CLASS_OF_PHASE = {"data": "data.slow_loader", "forward": "compute.slow", "backward": "compute.slow"}
"""What a rule that knows only phases would call a slow one; anything else is unknown."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A window when all of it has arrived, Unix time `now_s`."""

    now_s: float
    window: Window


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """Ranks or a whole run or group (`scope`) accused in the window at place `at`; `share` orders suspicions of a trial."""

    at: int
    fault_class: str
    ranks: tuple[int, ...] = ()
    scope: str = ""
    share: float = 0.0


def watch(simulation: Simulation, heard: Iterable[Moment] | None = None) -> tuple[Seen, ...]:
    """Every window of a job in order of arrival, on one clock; `heard` are its moments where they are known."""
    topology = build(simulation.layouts)
    return tuple(
        Seen(now_s=moment.now_s, window=align(assemble(moment.parts, topology)))
        for moment in (moments(simulation) if heard is None else heard)
        if moment.parts
    )


def incidents_of(
    suspicions: Iterable[Suspicion], seen: Sequence[Seen]
) -> tuple[tuple[Incident, ...], tuple[float, ...]]:
    """One incident per suspicion that goes on, and when each was first told."""
    made, told = list[Incident](), list[float]()
    last: dict[tuple[str, str], int] = {}
    for one in suspicions:
        window = seen[one.at].window
        key = one.fault_class, _scope(one, window)
        at = last.get(key)
        if at is not None and window.index - made[at].last_window <= QUIET_WINDOWS:
            made[at] = replace(made[at], last_window=window.index)
            continue
        last[key] = len(made)
        made.append(opened(one, window))
        told.append(seen[one.at].now_s)
    return tuple(made), tuple(told)


def job_steps(window: Window) -> Floats:
    """Time of each usable step that any rank showed, its slowest rank's. (step,)"""
    steps = window.step_s[:, window.usable]
    return np.asarray(np.fmax.reduce(steps[:, np.isfinite(steps).any(axis=0)], axis=0))


def over_steps(values: Floats, window: Window) -> Floats:
    """Mean over the usable steps, NaN where none was observed; the last axis of `values` is the step."""
    kept = values[..., window.usable]
    count = np.isfinite(kept).sum(axis=-1)
    total = np.nansum(kept, axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _scope(one: Suspicion, window: Window) -> str:
    if one.scope:
        return one.scope
    return f"rank:{one.ranks[0]}" if len(one.ranks) == 1 else f"run:{window.run}"


def opened(one: Suspicion, window: Window) -> Incident:
    """The incident a suspicion opens in a window."""
    scope = _scope(one, window)
    kind, _, name = scope.partition(":")
    cause = Cause(
        fault_class=one.fault_class,
        verdict="LIKELY",
        suspects=one.ranks,
        scope=scope,
        group=name if kind == "group" else None,
        share_of_step=one.share,
        onset_step=window.first_step,
    )
    return Incident(
        run=window.run,
        attempt=window.attempt,
        status="open",
        severity="warning",
        cause=cause,
        onset_step=window.first_step,
        end_step=None,
        opened_window=window.index,
        last_window=window.index,
        cost=NO_COST,
    )
