"""A rank computes slower than its peers in a job whose kernels are observed, on GPUs of their own."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw
from argus.evals.simulator.job import QUIET
from argus.evals.truth import Scenario

KERNELS = 12


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, seen by L3 as all kernels of it slow by one factor."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    made = drawn.scenario("compute.slow", kind="compute", severity=severity)
    job = replace(made.job, ranks_per_host=8, noise=QUIET, gpu=True, kernels=KERNELS)
    return replace(made, job=job)
