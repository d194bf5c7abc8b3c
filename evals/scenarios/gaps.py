"""Nothing is wrong, but the collectors of one host lose whole windows again and again, and some steps between."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

GAPS = ((34, 47), (70, 95), (118, 121), (150, 170))
"""Steps of which one host's records are lost."""

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job, the twin of slow_through_gaps; `severity` plays no part."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = max(ranks // 4, 1)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    gaps = tuple(Fault(kind="gap", ranks=members, start_step=begin, end_step=end) for begin, end in GAPS)
    return Scenario(job=replace(drawn.job, ranks_per_host=size, lost_step_probability=0.01), faults=gaps)
