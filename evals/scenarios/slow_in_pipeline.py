"""A rank of a pipeline computes slower than the same stage of the other replicas; one sync ends all steps."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("pipeline.imbalance",))
