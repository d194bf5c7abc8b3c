"""A GPU's path to its host is degraded: copies are slower, the batch is there in time, compute is normal."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_kernel import KERNELS
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of copy.slow."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, kernels=KERNELS))
    fault = Fault(kind="copy", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("copy.slow", fault, exonerated=("data.slow_loader",))
