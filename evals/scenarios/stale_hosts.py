"""All ranks of one host compute slower, but the ranks tell host names of before a move: none of them fits."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 16


def scenario(*, seed: int = 0, ranks: int = 16, severity: float = 1.5) -> Scenario:
    """The ranks of a host of compute.slow; whoever trusts the names takes out well ones, so the ranks are the answer."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = max(ranks // 4, 1)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    hosts = -(-ranks // size)
    told = tuple(f"h-{(rank + size // 2) // size % hosts:04d}" for rank in range(ranks))
    job = replace(drawn.job, ranks_per_host=size, told_hosts=told)
    fault = Fault(kind="compute", ranks=members, severity=severity)
    return replace(drawn, job=job).with_fault(
        "compute.slow", fault, scope=f"run:{job.run}", exonerated=("link.slow",)
    )
