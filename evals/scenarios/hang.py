"""A rank stays in its forward for ever while its peers wait in their collectives."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of stop.hang; `severity` only decides the kind of job."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    return drawn.scenario("stop.hang", kind="hang", severity=severity, end_step=None)
