"""A small published case: of 8 replicas, rank 5's attention takes 25 times and its products 20 times as long from step 15 of 40."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.simulator.segments import BACKWARD_SHARE, FORWARD_SHARE
from argus.evals.truth import Scenario

CULPRIT, ONSET, STEPS = 5, 15, 40
MIN_RANKS = CULPRIT + 1

TIMES = 20
"""How many times as long compute takes in all at the usual severity."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, gross and with hardly a baseline before it."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    job = replace(drawn.job, steps=STEPS, kernels=5, checkpoint_every=0)
    more = (TIMES - 1) * (FORWARD_SHARE + BACKWARD_SHARE) * (severity - 1) / 0.5
    fault = Fault(kind="compute", kernels="gemm|flash", ranks=(min(CULPRIT, ranks - 1),), severity=1 + more)
    return replace(drawn, job=job, onset_step=ONSET).with_fault(
        "compute.slow", fault, end_step=None, exonerated=("link.slow",)
    )
