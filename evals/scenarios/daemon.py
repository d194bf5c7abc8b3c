"""A daemon wakes on one host every 15 seconds and takes the CPU from its ranks for a moment."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

PERIOD_S = 15.0
STEP_S = 1.5
"""So that it wakes in every tenth step."""

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One host of host.cpu_starved, in one step of ten; a visit makes up for the steps in between."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = max(ranks // 4, 1)
    job = replace(drawn.job, gpu=False, ranks_per_host=size, step_s=STEP_S)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    every = round(PERIOD_S / STEP_S)
    fault = Fault(kind="starved", ranks=members, severity=1 + every * (severity - 1), every=every)
    scope = f"host:{job.host(first)}" if len(members) > 1 else f"rank:{first}"
    return replace(drawn, job=job).with_fault(
        "host.cpu_starved", fault, scope=scope, exonerated=("compute.slow",)
    )
