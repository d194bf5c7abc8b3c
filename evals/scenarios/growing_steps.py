"""Every step of the whole job takes a little longer than the one before, without an end: something leaks."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_job import STEP_S
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MAX_WINDOWS = 5
"""Of steps that are twice as long in the end; a growth by a tenth is worth telling in its second half alone."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """step.slower of the whole run."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, step_s=STEP_S), onset_step=30 + drawn.onset_step // 2)
    fault = Fault(kind="slow_all", ranks=tuple(range(ranks)), severity=severity, grows=True)
    return drawn.with_fault(
        "step.slower",
        fault,
        scope=f"run:{drawn.job.run}",
        ranks=(),
        end_step=None,
        exonerated=("compute.slow", "link.slow"),
    )
