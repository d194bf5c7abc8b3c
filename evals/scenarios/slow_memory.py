"""A GPU's memory is degraded: kernels that only move memory are slower, matrix products are not."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_kernel import KERNELS
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.memory."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, kernels=KERNELS))
    fault = Fault(kind="compute", kernels="norm|elementwise|reduce", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.memory", fault)
