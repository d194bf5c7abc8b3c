"""Why finding nothing in a run proves nothing: one step that is open for very long, or that took most of what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argus.agent.facts import RunFacts, StepPoint
from argus.agent.wording import quantity, ranks
from argus.analytics.lifecycle import WARNING_SHARE
from argus.analytics.stops import in_known_pause, ranks_behind, stalled_s, was_cancelled
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.layout import Topology

LONG = 10.0
"""Medians from which on a step is no slow one but one that somebody stood still in."""

HEARD_S = 5.0
"""Hosts report so often: a step that is open for less may be over."""

MOST = 0.5
"""Of what was lost, or of a step: most of it."""

MAX_WINDOWS = 500
MAX_RANKS = 512
"""What is read for one answer."""

STOPPED = frozenset("Tt")
"""Letters of a process that was told to stand still."""


def long_step(facts: RunFacts) -> str:
    """The long step of a run as a phrase, the one open now first; "" without any."""
    fleet = facts.fleet()
    topology = None if fleet is None else fleet.topology
    return _open_step(facts.beats() or (), topology) or _past_step(facts, topology)


def _open_step(beats: Sequence[Heartbeat], topology: Topology | None) -> str:
    is_cancelled = was_cancelled(beats)
    beats = [_as_it_stopped(beat) for beat in beats] if is_cancelled else beats
    running = [beat for beat in beats if beat.state == "running"]
    open_s = stalled_s(running)
    usual_s = float(np.median([beat.status.step_p50_ns for beat in running])) * 1e-9 if running else 0.0
    if open_s is None or in_known_pause(beats) or open_s < max(LONG * usual_s, HEARD_S):
        return ""
    step = max(beat.status.step for beat in running)
    long = f"open for {quantity(open_s, 's')}"
    long = f"was {long} when a signal ended the job" if is_cancelled else f"is {long}"
    told = f"step {step:,} {long}, a step takes {quantity(usual_s, 's')}"
    stopped = tuple(beat.rank for beat in running if beat.process_state in STOPPED)
    if stopped:
        return f"{told}; {ranks(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped by a signal"
    wait = "waited" if is_cancelled else "wait"
    behind = () if topology is None else tuple(item.rank for item in ranks_behind(running, topology))
    return f"{told}; the others {wait} for {ranks(behind)}" if behind else told


def _as_it_stopped(beat: Heartbeat) -> Heartbeat:
    """The rank's own last word, as it was when it was told to stop."""
    if beat.state == "ended":
        return beat
    return replace(beat, state="running", ts_s=beat.ts_s - beat.status_age_s, process_state="")


def _past_step(facts: RunFacts, topology: Topology | None) -> str:
    points = [point for point in facts.step_times(ranks=(), limit=MAX_WINDOWS) if point.job_s is not None]
    if not points:
        return ""
    worst = max(points, key=_spent_s)
    numbers = facts.numbers(worst.window)
    usual_s = numbers.typical_step_s if numbers is not None else None
    if numbers is None or usual_s is None:
        return ""
    took_s = float(np.nanmax(numbers.job_step_s))
    all_s = sum(map(_spent_s, points))
    lost_s = sum(max(_spent_s(point) - usual_s * point.num_steps, 0.0) for point in points)
    more_s = took_s - usual_s
    if took_s < LONG * usual_s or more_s < MOST * lost_s or more_s < WARNING_SHARE * all_s:
        return ""
    where, who = f"a step from {worst.first_step:,} on", ""
    if topology is not None and topology.world_size <= MAX_RANKS:
        window = facts.group_window(worst.window, ranks=topology.ranks)
        if window is not None:
            step, long = _who(window)
            where, who = f"step {step:,}", f" of {ranks(long)}" if long else ""
    return (
        f"{where}{who} took {quantity(took_s, 's')}, a step takes {quantity(usual_s, 's')}: "
        "that is most of what was lost"
    )


def _spent_s(point: StepPoint) -> float:
    return (point.job_s or 0.0) * point.num_steps


def _who(window: Window) -> tuple[int, tuple[int, ...]]:
    """The longest comparable step, and the ranks that did not wait in most of it, if they are the fewer."""
    seen_s = np.where(window.usable & np.isfinite(window.step_s), window.step_s, 0.0)
    at = int(seen_s.max(axis=0).argmax())
    own_s = np.nansum(window.self_s[:, :, at], axis=0)
    long = tuple(window.ranks[own_s >= MOST * seen_s[:, at].max()].tolist())
    return int(window.steps[at]), long if 2 * len(long) <= len(window.ranks) else ()
