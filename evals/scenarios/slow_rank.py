"""A rank computes slower than its peers: forward and backward last longer, with their CPU time."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    return drawn.scenario("compute.slow", kind="compute", severity=severity)
