"""Nothing is wrong: a job was started again with another setting and another host, and runs within a per cent as before."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_restart
from argus.evals.truth import Scenario

STEP_RATIO = 1.008
"""What another host and a setting that logs more often make of a step: no two starts of a job are quite alike."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy second attempt, the twin of changed_compiler; `severity` plays no part."""
    drawn, before = draw_restart(seed=seed, ranks=ranks, env=(("TRAIN_LOG_INTERVAL", "1"),))
    moved = drawn.job.host(drawn.rank)
    hosts = [drawn.job.host(rank) for rank in range(ranks)]
    return Scenario(
        job=replace(
            drawn.job,
            step_s=STEP_RATIO * drawn.job.step_s,
            told_hosts=tuple("spare-0" if host == moved else host for host in hosts),
        ),
        before=before,
    )
