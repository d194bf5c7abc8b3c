"""Every rank compiles in every step: the cache on disk is off, and steps take many times as long as they should."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

STEP_S = 2.5


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """host.jit of the whole run, the twin of slow_job and of cold_start."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, step_s=STEP_S))
    fault = Fault(kind="compile", ranks=tuple(range(ranks)), severity=1 + 4 * (severity - 1))
    return drawn.with_fault(
        "host.jit", fault, scope=f"run:{drawn.job.run}", ranks=(), exonerated=("compute.slow", "link.slow")
    )
