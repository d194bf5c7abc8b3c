"""One wait that outweighs all the rest of a recording: who kept the others waiting, at which step, for how long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.digest import GAP_PHASE
from argus.analytics.finding import Evidence, Finding
from argus.analytics.robust import at
from argus.analytics.waits import Waits, waiting_steps
from argus.analytics.window import Window

MIN_S, MIN_STEPS = 10.0, 10.0
"""A wait below ten seconds, or ten steps, is a save, a compilation or slow storage."""

MIN_SHARE = 0.5
"""It must be more than all other time of the usable steps: of a long recording one pause is little."""

TOGETHER = 0.5
"""Who came within the last half of the wait kept the others waiting too, and then no one rank did."""

KNOWN = frozenset({"checkpoint", "eval"})
"""Phases that explain a pause."""


def long_wait(seen: Sequence[tuple[Window, Waits]]) -> tuple[Finding, ...]:
    """The longest such wait of all windows as a finding of its step, nothing if there is none.

    Steps with a mark and those after them, and the first of a window, of which nobody knows what went before, do not
    count; nor do pauses inside a phase that is no work.
    """
    total_s = sum(_recorded_s(window) for window, _ in seen)
    found = [one for window, waits in seen if (one := _longest(window, waits))]
    if not found:
        return ()
    wait_s, rank, step, window, group = max(found, key=lambda one: one[0])
    usable = np.concatenate([window.step_s[:, window.usable].ravel() for window, _ in seen])
    step_s = float(np.nanmedian(usable))
    if wait_s <= max(MIN_S, MIN_STEPS * step_s, MIN_SHARE * total_s):
        return ()
    told = Finding(
        run=window.topology.run,
        attempt=window.topology.attempt,
        window=window.index,
        level="L2",
        detector="long_wait",
        kind="wait",
        role="culprit",
        ranks=(rank,),
        nodes=(f"rank:{rank}",),
        group=group,
        phase=_phase(window, rank, step, least_s=TOGETHER * wait_s),
        start_step=step,
        end_step=step,
        share_of_step=min(wait_s / total_s, 1.0),
        evidence=(Evidence(name="wait_s", value=wait_s, unit="s", baseline=step_s, note="one wait, once"),),
    )
    return (told,)


def _recorded_s(window: Window) -> float:
    """Time of the usable steps on the median rank."""
    times = np.nansum(window.step_s[:, window.usable], axis=1)
    return float(np.median(times)) if len(times) else 0.0


def _longest(window: Window, waits: Waits) -> tuple[float, int, int, Window, str] | None:
    """Seconds, rank, step, window and group of the longest wait for one rank alone."""
    calls = waits.calls
    steps = waiting_steps(window)
    counted = np.isin(calls.step, steps[steps > window.first_step]) & (waits.guilty >= 0) & ~calls.one_way
    if not counted.any():
        return None
    call = int(np.where(counted, waits.max_wait_s, 0.0).argmax())
    rank, step, wait_s = int(waits.guilty[call]), int(calls.step[call]), float(waits.max_wait_s[call])
    rows = slice(int(calls.first[call]), int(calls.first[call] + calls.size[call]))
    entry_s = calls.entry_s[rows]
    late = waits.members[rows][entry_s > entry_s.max() - TOGETHER * wait_s]
    if late.tolist() != [rank] or _phase(window, rank, step, least_s=TOGETHER * wait_s) in KNOWN:
        return None
    return wait_s, rank, step, window, window.groups[int(calls.group[call])]


def _phase(window: Window, rank: int, step: int, *, least_s: float) -> str | None:
    """The rank's phase that holds so much of the step and the one before, in which the pause may have begun; None outside of all."""
    column = step - window.first_step
    spent_s = np.nansum(window.self_s[:, at(window.ranks, rank), max(column - 1, 0) : column + 1], axis=1)
    longest = int(spent_s.argmax()) if len(spent_s) else -1
    if longest < 0 or spent_s[longest] < least_s or window.phases[longest] == GAP_PHASE:
        return None
    return window.phases[longest]
