"""A rank's cgroup has used up its CPU quota: as a rank that is starved, but it stands in no run queue."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of host.cpu_starved, on the wall clock where it can be told from slow compute."""
    drawn = draw(seed=seed + 500, ranks=ranks, severity=severity, wall_clock=True)
    return drawn.scenario("host.cpu_starved", kind="throttled", severity=severity)
