"""A host goes down: the processes of all its ranks vanish at once, and everybody else waits."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One host of stop.lost; `severity` plays no part."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = min(8, max(ranks // 4, 1))
    job = replace(drawn.job, ranks_per_host=size)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    scope = f"host:{job.host(first)}" if len(members) > 1 else f"rank:{first}"
    return replace(drawn, job=job).with_fault(
        "stop.lost", Fault(kind="lost", ranks=members), scope=scope, end_step=None, exonerated=("link.slow",)
    )
