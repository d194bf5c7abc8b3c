"""Paper case 1: two ranks of one host compute many times slower in a job of 4,096 GPUs; nothing else is wrong."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

CULPRIT_SHARE = 656 / 4096
"""The paper's replicas 656 and 657; at other sizes the same place of the job."""

FACTOR = 6.0
"""How much of `severity` a step gets: from 1.5 on it takes four times as long."""


def scenario(*, seed: int = 0, ranks: int = 4096, severity: float = 1.5) -> Scenario:
    """Two neighbours of compute.slow; their common object is the host."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    job = replace(
        drawn.job,
        micro_batches=4,
        schedule="1f1b",
        virtual=1,
        length_spread=0.02,
        steps=120,
        checkpoint_every=0,
    )
    first = round(CULPRIT_SHARE * ranks) // 2 * 2
    fault = Fault(kind="compute", ranks=(first, first + 1), severity=1 + FACTOR * (severity - 1))
    return replace(drawn, job=job, onset_step=60).with_fault(
        "compute.slow", fault, scope=f"host:{job.host(first)}", end_step=None, exonerated=("link.slow",)
    )
