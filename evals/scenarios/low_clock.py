"""A GPU's core clock is low, its memory's is not: matrix products are slower, what moves memory is spared."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_kernel import KERNELS
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, the twin of slow_memory."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, kernels=KERNELS))
    fault = Fault(kind="compute", kernels="gemm|flash", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("compute.memory", "link.slow"))
