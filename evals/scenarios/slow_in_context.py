"""A rank of a context-parallel group computes slower: long sequences are split over it and its siblings."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_context
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow."""
    drawn = draw_context(seed=seed, ranks=ranks)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("link.slow", "imbalance.sequence"))
