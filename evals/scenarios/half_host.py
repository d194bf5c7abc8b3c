"""The ranks of one half of a host are slower and get no less CPU time: their memory is on the other socket."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 16
"""Two hosts of eight."""


def scenario(*, seed: int = 0, ranks: int = 16, severity: float = 1.5) -> Scenario:
    """Half a host of host.numa, the twin of slow_host."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = min(8, max(ranks // 2, 1))
    half = max(size // 2, 1)
    drawn = replace(drawn, job=replace(drawn.job, gpu=False, ranks_per_host=size))
    first = drawn.rank // half * half
    members = tuple(range(first, min(first + half, ranks)))
    fault = Fault(kind="compute", ranks=members, severity=severity)
    scope = f"host:{drawn.job.host(first)}" if len(members) > 1 else f"rank:{first}"
    return drawn.with_fault("host.numa", fault, scope=scope, exonerated=("link.slow",))
