"""What a short profile cannot tell: one long launch is no slow kernel, and few ranks lie close together by chance."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.digest import KernelDigest, digest_table
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.votes import Votes, vote
from tests.analytics.kernels.kit import Draw, Durations, named, peers_of, table_of

SICK_KERNEL = 2
LONE = Settings(needed=1)
"""A profile is one window: nothing can be seen twice."""


def told(draw: Draw, *, ranks: int, seed: int) -> tuple[KernelDigest, Votes]:
    """One window of twenty steps, alone."""
    digest = digest_table(
        table_of(draw, ranks=ranks, seed=seed), peers_of(ranks), step_ns=14e6, num_steps=20, settings=LONE
    )
    return digest, vote(digest, [], settings=LONE)


def durations(
    rng: np.random.Generator, *, kernel: int, num: int, sigma: float = 0.2, ratio: float = 1.0
) -> Durations:
    """So many launches in nanoseconds, scattered as attention over documents of any length is."""
    return 5e4 * (kernel + 1) * ratio * np.exp(sigma * rng.normal(size=num))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("num", [20, 40])
@pytest.mark.parametrize("spike_us", [3_000.0, 82_000.0, 5e6])
def test_one_long_launch_is_no_slow_kernel(ranks: int, num: int, spike_us: float) -> None:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        one = durations(rng, kernel=kernel, num=num)
        if (rank, kernel) == (ranks - 1, SICK_KERNEL):
            one[num // 2] = 1e3 * spike_us
        return one

    for seed in range(20):
        digest, votes = told(draw, ranks=ranks, seed=seed)
        assert not named(digest, votes.shift) and not votes.device.any(), seed


@pytest.mark.parametrize("spike_us", [0.0, 82_000.0])
def test_a_slow_kernel_is_found_whether_one_of_its_launches_is_long_or_not(spike_us: float) -> None:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        sick = (rank, kernel) == (3, SICK_KERNEL)
        one = durations(rng, kernel=kernel, num=40, sigma=0.05, ratio=1.6 if sick else 1.0)
        if sick:
            one[7] = max(one[7], 1e3 * spike_us)
        return one

    for seed in range(10):
        digest, votes = told(draw, ranks=16, seed=seed)
        assert named(digest, votes.shift) == {("norm_2", 3)}, seed


@pytest.mark.parametrize("ranks", [8, 10, 16])
def test_few_healthy_devices_that_lie_close_together_by_chance_are_let_be(ranks: int) -> None:
    def draw(rng: np.random.Generator, _rank: int, kernel: int) -> Durations:
        return durations(rng, kernel=kernel, num=40)

    for seed in range(40):
        _, votes = told(draw, ranks=ranks, seed=seed)
        assert not votes.device.any(), seed
