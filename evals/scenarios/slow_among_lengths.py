"""A rank computes slower than its own work explains, in a job whose sequence lengths differ by nature."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

LENGTH_SPREAD = 0.012
"""Lengths differ by 1.2 %: the longest of hundreds costs less than the loss at which uneven work is told by itself."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, tells_work=True, length_spread=LENGTH_SPREAD))
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("imbalance.sequence",))
