"""Nothing is wrong: the first steps compile and fill caches, and a spare that joined cold takes longest of all."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

SLOW_STEPS, COLD_STEPS = 15, 12
TIMES = 3.0


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job; `severity` plays no part."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    start = Fault(kind="slow_all", ranks=tuple(range(ranks)), severity=TIMES, end_step=SLOW_STEPS)
    cold = Fault(kind="compile", ranks=(drawn.rank,), severity=TIMES, end_step=COLD_STEPS)
    return Scenario(job=replace(drawn.job, attempt=1), faults=(start, cold))
