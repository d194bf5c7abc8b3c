"""Nothing is wrong: while a checkpoint is written in the background all ranks are a little slower, then not."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

EVERY, LASTS = 50, 8
"""Steps from save to save, and those a write goes on for."""

SLOWER = 1.2


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job; `severity` plays no part."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    job = replace(drawn.job, checkpoint_every=EVERY)
    everybody = tuple(range(ranks))
    saves = tuple(
        Fault(kind="slow_all", ranks=everybody, severity=SLOWER, start_step=at + 1, end_step=at + 1 + LASTS)
        for at in range(EVERY, job.steps, EVERY)
    )
    return Scenario(job=job, faults=saves)
