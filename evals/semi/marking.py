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
    pairs = zip(incidents, map(float, told_step), strict=True)
    kept = [
        pair
        for pair in pairs
        if is_true(pair[0], truth, window_steps=window_steps) or not _is_known(pair[0], known, window_steps)
    ]
    told, at = [one for one, _ in kept], [step for _, step in kept]
    onset_s = float(truth.onset_step)
    outcome = score(trial, [truth], incidents=told, told_s=at, onset_s=onset_s, window_steps=window_steps)
    return mark(
        system,
        replace(outcome, steps=steps, delay_s=None),
        truths=[truth],
        incidents=told,
        findings=findings,
        window_steps=window_steps,
        rank_s=0.0,
        cost_ratio=cost_ratio,
        spent=spent,
        is_long=True,
    )


def _is_known(incident: Incident, known: Sequence[Truth], window_steps: int) -> bool:
    return any(is_true(incident, old, window_steps=window_steps) for old in known)


def crashed(system: str, trial: Trial, truth: Truth, error: Exception) -> Mark:
    """The mark of an answer that never came."""
    outcome = Outcome(
        trial=trial,
        truth=truth,
        is_faulty=truth.fault_class is not None,
        error=f"{type(error).__name__}: {error}",
    )
    return mark(system, outcome, truths=[truth], window_steps=1, rank_s=0.0, is_long=True)
