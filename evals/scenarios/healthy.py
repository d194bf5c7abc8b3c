"""Nothing is wrong: natural jitter, routine collections, checkpoints."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job of the same kinds as the faulty ones; `severity` only decides which kinds."""
    return Scenario(job=draw(seed=seed, ranks=ranks, severity=severity).job)
