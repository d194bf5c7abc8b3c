"""Marks of answers to recordings with a fault put in; clocks count steps, for most recordings tell no time of day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.evals.marks import UNKNOWN, Mark, Spent, mark
from argus.evals.score import Outcome, Trial, is_true, score
from argus.evals.truth import Truth


def marked(
    system: str,
    trial: Trial,
    truth: Truth,
    *,
    incidents: Sequence[Incident],
    told_step: Sequence[int],
    known: Sequence[Truth],
    window_steps: int,
    steps: int,
    findings: Sequence[Finding] = (),
    cost_ratio: float | None = None,
    spent: Spent = UNKNOWN,
) -> Mark:
    """The mark; what is true of the `known` faults the recording had before, and not of ours, is not counted."""
    kept = [
        (one, step)
        for one, step in zip(incidents, told_step, strict=True)
        if is_true(one, truth, window_steps=window_steps)
        or not any(is_true(one, old, window_steps=window_steps) for old in known)
    ]
    outcome = score(
        trial,
        [truth],
        incidents=[one for one, _ in kept],
        told_s=[float(step) for _, step in kept],
        onset_s=float(truth.onset_step),
        window_steps=window_steps,
    )
    return mark(
        system,
        replace(outcome, steps=steps, delay_s=None),
        truths=[truth],
        incidents=[one for one, _ in kept],
        findings=findings,
        window_steps=window_steps,
        rank_s=0.0,
        cost_ratio=cost_ratio,
        spent=spent,
        is_long=True,
    )


def crashed(system: str, trial: Trial, truth: Truth, error: Exception) -> Mark:
    """The mark of an answer that never came."""
    outcome = Outcome(
        trial=trial,
        truth=truth,
        is_faulty=truth.fault_class is not None,
        error=f"{type(error).__name__}: {error}",
    )
    return mark(system, outcome, truths=[truth], window_steps=1, rank_s=0.0, is_long=True)
