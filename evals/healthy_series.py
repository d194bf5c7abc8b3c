"""False incidents of L1 on healthy step times: long jobs of the simulator, and families of noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.series.follow import read_whole
from argus.analytics.series.judge import lone_slowdowns
from argus.analytics.window import Floats
from argus.evals.scenarios.healthy import scenario
from argus.evals.simulator.simulate import simulate
from argus.evals.step_noise import FAMILIES

STEPS = 2000
RANKS = (4, 8, 16)
"""Sizes of the jobs in turn; the smaller ones share CPU cores half of the time, which is the noisiest kind."""

MAX_FALSE_PER_STEP = 1e-5

POISSON_95 = (3.0, 4.74, 6.3, 7.75, 9.15, 10.51)
"""95 % upper bounds of the mean behind 0, 1, 2, … events."""


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """`false` incidents in `steps` steps; `kinds` counts the findings."""

    steps: int
    false: int
    kinds: dict[str, int]

    @property
    def per_100k(self) -> float:
        """False incidents in 100,000 steps."""
        return 1e5 * self.false / self.steps

    @property
    def at_most_per_100k(self) -> float | None:
        """Its 95 % upper bound; None beyond the table, where the rate itself is no longer small."""
        return 1e5 * POISSON_95[self.false] / self.steps if self.false < len(POISSON_95) else None


def healthy_series(num_jobs: int) -> Iterator[Floats]:
    """The slowest rank's time of every step; NaN where the step is marked.

    Straight from the played steps: what ranks write of them says the same and takes twenty times as long.
    """
    for seed in range(num_jobs):
        drawn = scenario(seed=seed, ranks=RANKS[seed % len(RANKS)])
        done = simulate(replace(drawn.job, steps=STEPS), (), rng=np.random.default_rng(seed))
        slowest = (done.end_s - done.start_s).max(axis=1)
        marked = np.arange(STEPS) < done.job.warmup_steps
        for pauses in done.costs.pauses.values():
            marked |= (pauses > 0).any(axis=1)
        yield np.where(marked, np.nan, slowest)


def count_false_jobs(num_jobs: int) -> Healthy:
    """Everything L1 makes an incident of in healthy jobs of the simulator."""
    return count_false(healthy_series(num_jobs))


def count_false_families(num_series: int, *, count: int = 1500) -> dict[str, Healthy]:
    """The same for each family of noise, over `num_series` series of `count` values."""
    return {
        name: count_false(family(np.random.default_rng(seed), count) for seed in range(num_series))
        for name, family in FAMILIES.items()
    }


def count_false(series: Iterable[Floats]) -> Healthy:
    """Everything L1 makes an incident of, and its findings by kind."""
    steps = false = 0
    kinds: dict[str, int] = {}
    for values in series:
        state, events = read_whole(values)
        whole = np.where(np.isfinite(values), values, np.nanmedian(values))
        steps += len(values)
        false += len(lone_slowdowns(whole, events, state.rhythm.periods))
        for event in events:
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
    return Healthy(steps=steps, false=false, kinds=kinds)
