"""A rank of the only replica becomes slow: nobody else does the same work, so its own past has to tell."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow in a pipeline of up to eight stages."""
    drawn = draw_pipeline(seed=seed, ranks=ranks, replicas=1, stages=8)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("pipeline.imbalance",))
