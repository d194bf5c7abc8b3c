"""Nothing is wrong, but nothing is tidy: shared cores, saves and evaluations on one step, gaps, clocks, heat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.evals.scenarios._draw import STEPS, draw
from argus.evals.simulator.job import Job, Noise
from argus.evals.truth import Scenario

LENGTH_SPREAD = 0.015
"""Less than the unevenness that is worth telling."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job with everything that makes timing uneven; `severity` only decides which kind of job."""
    rng = np.random.default_rng([seed, ranks, 4])
    job = draw(seed=seed, ranks=ranks, severity=severity).job
    noise = Noise(
        **{
            **vars(job.noise),
            "daily": 0.03,
            "tail_probability": 3 * job.noise.tail_probability,
            "tail_ratio": 1.0,
        }
    )
    return Scenario(job=_ugly(rng, replace(job, noise=noise)))


def _ugly(rng: np.random.Generator, job: Job) -> Job:
    every = int(rng.choice([40, 50]))
    ugly = replace(
        job,
        checkpoint_every=every,
        eval_every=every,
        gc_every=10,
        gc_pause_s=0.02 * job.step_s,
        clock_offset_s=float(rng.choice([0.001, 0.5])),
        clock_drift=1e-6,
        length_spread=LENGTH_SPREAD,
        tells_work=bool(rng.random() < 0.5),
        lost_step_probability=float(rng.choice([0.0, 0.01])),
        missing=(int(rng.integers(job.ranks)),) if job.ranks > 8 and rng.random() < 0.3 else (),
    )
    if job.ranks < 8 or job.tp > 1 or not job.gpu:
        return ugly
    kind = rng.choice(["data", "pipeline", "experts"])
    if kind == "pipeline":
        return replace(ugly, pp=4, micro_batches=8, stage_work=(1.02, 1.0, 1.0, 1.03), steps=STEPS)
    return replace(ugly, ep=4, routing_spread=0.02) if kind == "experts" else ugly
