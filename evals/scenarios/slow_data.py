"""A rank waits for its next batch."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of data.slow_loader."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    return drawn.scenario("data.slow_loader", kind="data", severity=severity)
