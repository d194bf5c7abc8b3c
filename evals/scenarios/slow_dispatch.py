"""Dispatch and combine of one expert-parallel group are slow while its experts compute as ever."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 16
"""Two groups of eight: a lone group has no peers."""


def scenario(*, seed: int = 0, ranks: int = 16, severity: float = 1.5) -> Scenario:
    """One expert-parallel group of link.slow, the twin of crowded_experts."""
    drawn = draw_experts(seed=seed, ranks=ranks)
    fault = Fault(kind="link", group="ep", ranks=(drawn.rank,), severity=severity)
    made = drawn.with_fault("link.slow", fault, exonerated=("imbalance.experts", "compute.slow"))
    return replace(made, truth=drawn.path_truth(made.truth, "ep"))
