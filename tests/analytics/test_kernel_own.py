"""A device against its own past: a healthy one is not accused of sampling error, of its mix or of a spike."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernel_digest import KEPT
from argus.analytics.kernel_scan import Settings
from argus.analytics.kernel_votes import vote
from tests.analytics.kernel_kit import Draw, Durations, digests, named

RANKS, WINDOWS = 8, 10


def even(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """Twenty launches between 0.8 and 1.4."""
    return 2e4 * rng.uniform(0.8, 1.4, 20)


def mixed(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """Two modes three times apart, the second another part of the launches in every window."""
    long = rng.random(20) < rng.uniform(0.3, 0.7)
    return 2e4 * np.exp(0.03 * rng.normal(size=20)) * np.where(long, 3.0, 1.0)


def spiky(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """One launch of rank 3's first kernel compiles first, in a third of the windows."""
    durations = 2e4 * np.exp(0.03 * rng.normal(size=20))
    if rank == 3 and kernel == 0 and rng.random() < 1 / 3:
        durations[7] *= 40.0
    return durations


@pytest.mark.slow
@pytest.mark.parametrize("draw", [even, mixed, spiky])
def test_a_healthy_device_did_not_change(draw: Draw) -> None:
    seen = digests(draw, ranks=RANKS, windows=WINDOWS)
    for n in range(3, WINDOWS):
        votes = vote(seen[n], seen[max(n - KEPT, 0) : n], settings=Settings())
        assert named(seen[n], votes.shift) == set(), n


@pytest.mark.slow
def test_most_of_the_devices_that_turn_slow_did() -> None:
    before = digests(even_long, ranks=RANKS, windows=4)
    after = digests(
        lambda rng, rank, kernel: even_long(rng, rank, kernel) * (1.2 if rank < 6 and kernel == 2 else 1.0),
        ranks=RANKS,
        windows=6,
    )[4:]
    votes = vote(after[-1], [*before, *after[:-1]], settings=Settings())
    assert named(after[-1], votes.shift) == {("norm_2", rank) for rank in range(6)}


def even_long(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """As `even`, of two hundred launches."""
    return 2e4 * rng.uniform(0.95, 1.05, 200)
