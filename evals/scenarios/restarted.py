"""Nothing is wrong: a job was started again with another setting, and runs as it did before."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_restart
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy second attempt, the twin of changed_code and changed_nccl; `severity` plays no part."""
    drawn, before = draw_restart(seed=seed, ranks=ranks, env=(("NCCL_DEBUG", "INFO"),))
    return Scenario(job=drawn.job, before=before)
