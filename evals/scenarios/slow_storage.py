"""The storage behind all loaders is slow: every rank waits for its data, and nothing else has changed."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_job import STEP_S
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """data.slow_loader of the whole run, the twin of slow_job."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, step_s=STEP_S))
    fault = Fault(kind="data", ranks=tuple(range(ranks)), severity=severity)
    return drawn.with_fault(
        "data.slow_loader",
        fault,
        scope=f"run:{drawn.job.run}",
        ranks=(),
        exonerated=("compute.slow", "link.slow"),
    )
