"""In a loop of reinforcement learning one rank generates slower than the others; its update is as fast as theirs."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_loop
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, the twin of uneven_rollouts."""
    drawn = draw_loop(seed=seed, ranks=ranks, spread=0.03)
    fault = Fault(kind="rollout", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("link.slow", "data.slow_loader"))
