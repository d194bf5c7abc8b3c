"""Paper case 3: a rank of the last stage is slow in its backward; the sync at the end makes all totals equal."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

CULPRIT_SHARE = 3760 / 4096
"""The paper's rank 3760 of the last of four stages; at other sizes the same place."""

LENGTH_SPREAD = 0.05
"""Shapes vary from batch to batch, as with images in between text."""


def scenario(*, seed: int = 0, ranks: int = 4096, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow: its backward takes 1.8 times as long at the usual severity."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    job = replace(
        drawn.job,
        micro_batches=4,
        schedule="1f1b",
        virtual=1,
        length_spread=LENGTH_SPREAD,
        steps=120,
        checkpoint_every=0,
    )
    rank = min(round(CULPRIT_SHARE * ranks), ranks - 1)
    fault = Fault(kind="compute", phase="backward", ranks=(rank,), severity=severity)
    return replace(drawn, job=job, onset_step=60).with_fault(
        "compute.slow", fault, end_step=None, exonerated=("link.slow", "pipeline.imbalance")
    )
