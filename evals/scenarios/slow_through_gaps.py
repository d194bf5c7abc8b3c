"""A rank computes slower while the collectors of another host lose whole windows."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

LOST_STEPS = 24
MIN_RANKS = 4

MAX_WINDOWS = 5
"""The windows of the gap are below the coverage that anything is said at."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = max(ranks // 4, 1)
    drawn = replace(drawn, job=replace(drawn.job, ranks_per_host=size))
    made = drawn.with_fault(
        "compute.slow",
        Fault(kind="compute", ranks=(drawn.rank,), severity=severity),
        exonerated=("stop.lost", "link.slow"),
    )
    first = (drawn.rank // size * size + size) % ranks
    gap = Fault(
        kind="gap",
        ranks=tuple(range(first, min(first + size, ranks))),
        start_step=drawn.onset_step,
        end_step=drawn.onset_step + LOST_STEPS,
    )
    return replace(made, faults=(*made.faults, gap))
