"""Test 4, all ranks since a restart: what changed between the attempt before and this one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.run_diff import RunDiff, change_finding
from argus.analytics.stops import is_over
from argus.analytics.view import View

CLASS = "run.changed"

STILL, STILL_OPEN = 0.5, 0.25
"""The change is there while at least half of it is, and an open incident lasts to a quarter of it."""

RECENT = 8
"""Windows that together say what is still there: short ones of a busy machine go up and down by more than the change."""

EXPLAINED = 0.5
"""A suspect that costs half of what the step grew by explains it: the restart does not."""


def run_changes(view: View) -> tuple[Finding, ...]:
    """That the run is slower than before it was started again, told with every window while it is known."""
    if view.digest is None or view.outside.change is None:
        return ()
    first = view.past[0].first_step if view.past else view.digest.first_step
    window = view.digest.index
    found = change_finding(
        view.outside.change, run=view.run, attempt=view.attempt, window=window, first_step=first
    )
    return () if found is None else (replace(found, launch=view.launch),)


def restart_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause of the whole run if all of it has been slower since it was started again.

    With nothing known to differ but the step, or with ranks that do other work than before, it stays open why.
    """
    change, digest = view.outside.change, view.digest
    finding = next((each for each in lasting.findings if each.kind == "run_change"), None)
    if change is None or digest is None or finding is None or not change.same_shape or is_over(view.beats):
        return ()
    effect_s, before_s = finding.effect_s_per_step or 0.0, finding.evidence[0].baseline or 0.0
    now_s = _usual_s(one.typical_step_s for one in (*view.past[1 - RECENT :], digest))
    is_open = any(cause.fault_class == CLASS for cause in lasting.open)
    if not now_s - before_s >= (STILL_OPEN if is_open else STILL) * effect_s:
        return ()
    if _blamed_s(lasting) >= EXPLAINED * effect_s:
        return ()
    return (_cause(view, finding, change, now_s=now_s, before_s=before_s),)


def _cause(view: View, finding: Finding, change: RunDiff, *, now_s: float, before_s: float) -> Cause:
    is_told = any(change.of(section) for section in ("environment", "versions", "nccl", "kernels"))
    why = "every rank is slower alike since the restart, and no rank stands out in its own work"
    return Cause(
        fault_class=CLASS,
        verdict="LIKELY" if is_told else "INCONCLUSIVE",
        suspects=(),
        scope=f"run:{view.run}",
        ruled_out=(RuledOut(fault_class="compute.slow", why=why),),
        second_best="link.slow",
        evidence=finding.evidence,
        findings=(finding.id,),
        share_of_step=min((now_s - before_s) / now_s, 1.0),
        s_per_step=now_s - before_s,
        onset_step=finding.start_step or 0,
    )


def _usual_s(steps_s: Iterable[float]) -> float:
    """Mean of the quartiles of those that are known; NaN of none. A median would follow every turn of two levels."""
    known = [step_s for step_s in steps_s if math.isfinite(step_s)]
    return float(np.quantile(known, (0.25, 0.75)).mean()) if known else math.nan


def _blamed_s(lasting: Lasting) -> float:
    """What the costliest suspect named otherwise costs a step."""
    ranks = [symptoms[-1].impact_s for symptoms in lasting.ranks]
    links = [symptoms[-1].impact_s for symptoms in lasting.links]
    return max((*ranks, *links), default=0.0)
