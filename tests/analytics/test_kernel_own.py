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


def even_long(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """As `even`, of two hundred launches that are alike."""
    return 2e4 * rng.uniform(0.95, 1.05, 200)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [even, mixed])
def test_a_healthy_device_did_not_change(draw: Draw) -> None:
    seen = digests(draw, ranks=RANKS, windows=WINDOWS)
    for n in range(3, WINDOWS):
        votes = vote(seen[n], seen[max(n - KEPT, 0) : n], settings=Settings())
        assert named(seen[n], votes.shift) == set(), n


def changed_at_the_end(late: Draw) -> set[tuple[str, int]]:
    """Who is slow after four healthy windows and two of `late`."""
    seen = [*digests(even_long, ranks=RANKS, windows=4), *digests(late, ranks=RANKS, windows=6)[4:]]
    return named(seen[-1], vote(seen[-1], seen[:-1], settings=Settings()).shift)


@pytest.mark.slow
def test_most_of_the_devices_that_turn_slow_did() -> None:
    def late(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        return even_long(rng, rank, kernel) * (1.2 if rank < 6 and kernel == 2 else 1.0)

    assert changed_at_the_end(late) == {("norm_2", rank) for rank in range(6)}


@pytest.mark.slow
def test_a_device_with_a_spike_in_two_windows_did_not_turn_slow() -> None:
    def late(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        durations = even_long(rng, rank, kernel)
        durations[:1] *= 40.0 if rank == 3 and kernel == 2 else 1.0
        return durations

    assert changed_at_the_end(late) == set()
