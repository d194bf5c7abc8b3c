"""Healthy days of a large job, cut into slices of twenty minutes so that a run of them can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from argus.evals.score import Trial
from argus.evals.simulator.job import Job, Noise
from argus.evals.truth import Scenario

NAME = "healthy_day"
RANKS = 10_240
STEP_S = 6.0
"""Ten such steps are a window of a minute, the longest the service chooses."""

SLICE_STEPS = 200
SLICES = 72
"""Of one day; each is a job that starts at its time of the day."""

DAILY = 0.03
"""Of the step, by the hour; every slice rises as the steepest twenty minutes of the day."""

CHECKPOINT_EVERY = 100
START_S = 1_700_006_400.0
"""Midnight of some day."""

FIRST_SEED = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Days:
    """So many days after each other; a trial is a slice."""

    days: int = 3

    def trials(self) -> Iterator[Trial]:
        """Every slice in order of time."""
        for slice_of_all in range(self.days * SLICES):
            yield Trial(scenario=NAME, seed=FIRST_SEED + slice_of_all, ranks=RANKS, severity=1.0)


def scenario(*, seed: int, ranks: int = RANKS) -> Scenario:
    """Slice `seed` − FIRST_SEED of the days; layout, clocks and evaluations are drawn."""
    rng = np.random.default_rng([seed, ranks, 5])
    tp = int(rng.choice([1, 8])) if ranks % 16 == 0 else 1
    start_s = START_S + (seed - FIRST_SEED) * SLICE_STEPS * STEP_S
    return Scenario(
        job=Job(
            ranks=ranks,
            tp=tp,
            steps=SLICE_STEPS,
            step_s=STEP_S,
            start_s=start_s,
            noise=Noise(daily=DAILY),
            checkpoint_every=CHECKPOINT_EVERY,
            checkpoint_s=20.0,
            eval_every=int(rng.choice([0, 200])),
            eval_s=30.0,
            clock_offset_s=0.001,
            clock_drift=1e-7,
            lost_step_probability=1e-5,
        )
    )
