"""Garbage collection pauses one rank's training thread every other step."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of host.gc."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    return drawn.scenario("host.gc", kind="gc", severity=severity)
