"""Tokens begin to crowd on some experts: their ranks compute longer, and others the next minute."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """imbalance.experts of the whole run; no rank is to blame."""
    drawn = draw_experts(seed=seed, ranks=ranks)
    fault = Fault(kind="routing", ranks=tuple(range(ranks)), severity=severity)
    return drawn.with_fault(
        "imbalance.experts", fault, scope=f"run:{drawn.job.run}", ranks=(), exonerated=("compute.slow",)
    )
