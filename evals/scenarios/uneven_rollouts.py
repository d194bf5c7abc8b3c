"""Nothing is wrong: in a loop of reinforcement learning answers differ in length, another rank is last each time."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_loop
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy loop, the twin of slow_rollout; `severity` plays no part."""
    return Scenario(job=draw_loop(seed=seed, ranks=ranks, spread=0.3).job)
