"""Nothing is wrong: the clock of one host jumps by seconds, so that its ranks seem to come far too late."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

JUMP_S = 11.56


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job; `severity` plays no part."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    size = min(8, max(ranks // 2, 1))
    first = drawn.rank // size * size
    jump = Fault(
        kind="clock_jump",
        ranks=tuple(range(first, min(first + size, ranks))),
        severity=JUMP_S,
        start_step=drawn.onset_step,
    )
    return Scenario(job=replace(drawn.job, ranks_per_host=size), faults=(jump,))
