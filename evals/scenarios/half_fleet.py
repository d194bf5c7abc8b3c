"""More than half of the ranks become slow at once: the slow ones are the usual ones among themselves."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

SLOW_SHARE = 0.625

MIN_RANKS = 4
"""Two of three, or one of two, are no fleet."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """Five of eight ranks of compute.slow; the whole run is their smallest common object."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    slow = tuple(sorted((drawn.rank + i) % ranks for i in range(max(round(SLOW_SHARE * ranks), 1))))
    fault = Fault(kind="compute", ranks=slow, severity=severity)
    return drawn.with_fault("compute.slow", fault, scope=f"run:{drawn.job.run}")
