"""A rank's process is killed while the job is running."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of stop.lost; `severity` only decides the kind of job."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    return drawn.scenario("stop.lost", kind="lost", severity=severity, end_step=None)
