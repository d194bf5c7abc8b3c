"""A rank becomes slower a little with every step, too slowly for any step to stand out from the one before."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import END_STEP, draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

GROWS_STEPS = 60


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow; drifts of days are the business of a device's history (docs/history.md)."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    made = drawn.with_fault("compute.slow", fault, exonerated=("step.slower",))
    full = drawn.onset_step + GROWS_STEPS
    rises = replace(fault, start_step=drawn.onset_step, end_step=full, grows=True)
    stays = replace(fault, start_step=full, end_step=END_STEP)
    return replace(made, faults=(rises, stays) if full < END_STEP else (rises,))
