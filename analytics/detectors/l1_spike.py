"""L1: single steps of the job that took much longer than the steps before them.

A step against the rolling median of the steps before it (argus-paper.md §9 row 15). An isolated spike is a
notice and never an incident.
"""

from __future__ import annotations

import numpy as np

from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.series.spike import MIN_BEFORE, MIN_RATIO, MIN_SCALES, ROLLING, usual_if_spike
from argus.analytics.view import View

NEEDS = "gc_pause"

MAX_FINDINGS = 5
"""Spikes reported per window, the largest first: a window full of them is not news five times."""


def detect(
    view: View,
    *,
    min_ratio: float = MIN_RATIO,
    min_scales: float = MIN_SCALES,
    rolling_steps: int = ROLLING,
    min_before: int = MIN_BEFORE,
) -> tuple[Finding, ...]:
    """One notice per spike of the job series (slowest rank of each step)."""
    digest = observed(view)
    if digest is None:
        return ()
    before = [past.job_step_s for past in view.past]
    series = np.concatenate([*before, digest.job_step_s])
    offset = len(series) - len(digest.job_step_s)
    found: list[tuple[float, Finding]] = []
    for place in range(len(digest.job_step_s)):
        value = series[offset + place]
        usual = usual_if_spike(
            series[: offset + place],
            float(value),
            min_ratio=min_ratio,
            min_scales=min_scales,
            rolling=rolling_steps,
            min_before=min_before,
        )
        if usual is not None:
            step = int(digest.steps[place])
            found.append((float(value), _finding(view, digest.index, step, float(value), usual)))
    found.sort(key=lambda item: -item[0])
    return tuple(finding for _, finding in found[:MAX_FINDINGS])


def _finding(view: View, window: int, step: int, value: float, usual: float) -> Finding:
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=window,
        level="L1",
        detector="l1_spike",
        kind="spike",
        role="notice",
        ranks=(),
        start_step=step,
        end_step=step,
        ratio=value / usual,
        effect_s_per_step=value - usual,
        share_of_step=(value - usual) / value,
        evidence=(Evidence(name="step_s", value=value, unit="s", baseline=usual),),
    )
