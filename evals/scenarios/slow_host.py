"""All ranks of one host do not get the CPU: something else runs there."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One host of host.cpu_starved, on hosts of an eighth of the ranks."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = max(ranks // 8, 1)
    job = replace(drawn.job, gpu=False, ranks_per_host=size)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    scope = f"host:{job.host(first)}" if len(members) > 1 else f"rank:{first}"
    fault = Fault(kind="starved", ranks=members, severity=severity)
    return replace(drawn, job=job).with_fault("host.cpu_starved", fault, scope=scope)
