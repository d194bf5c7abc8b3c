"""A device against its own past: a healthy one is not accused of sampling error, of its mix or of a spike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.kernels.digest import KEPT, KernelDigest
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import Draw, Durations, digests, in_turn, named

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
    seen = in_turn(digests(draw, ranks=RANKS, windows=WINDOWS))
    for n in range(3, WINDOWS):
        votes = vote(seen[n], seen[max(n - KEPT, 0) : n], settings=Settings())
        assert named(seen[n], votes.shift) == set(), n


def six_of_eight(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """Most of the ranks are slow in one kernel."""
    return even_long(rng, rank, kernel) * (1.2 if rank < 6 and kernel == 2 else 1.0)


SLOW = {("norm_2", rank) for rank in range(6)}


def turned(late: Draw) -> list[KernelDigest]:
    """Four healthy windows and two of `late`."""
    return [*digests(even_long, ranks=RANKS, windows=4), *digests(late, ranks=RANKS, windows=6)[4:]]


def changed_at_the_end(late: Draw) -> set[tuple[str, int]]:
    """Who is slow after four healthy windows and two of `late`."""
    seen = in_turn(turned(late))
    return named(seen[-1], vote(seen[-1], seen[:-1], settings=Settings()).shift)


@pytest.mark.slow
def test_most_of_the_devices_that_turn_slow_did() -> None:
    assert changed_at_the_end(six_of_eight) == SLOW


@pytest.mark.slow
def test_a_kernel_of_another_name_or_a_device_that_is_away_in_each_window_hides_no_change() -> None:
    seen = turned(six_of_eight)
    named_anew = in_turn(
        [replace(one, keys=(*one.keys[:-1], (10**6 + n, one.keys[-1][1]))) for n, one in enumerate(seen)]
    )
    assert named(seen[-1], vote(named_anew[-1], named_anew[:-1], settings=Settings()).shift) == SLOW
    # Rank 7 was on another host once, rank 0 in the first window.
    moved = [
        replace(one, devices=tuple("elsewhere" if r == away else d for r, d in enumerate(one.devices)))
        for one, away in zip(seen, (0, 7, *4 * (None,)), strict=True)
    ]
    last = in_turn(moved)
    assert named(seen[-1], vote(last[-1], last[:-1], settings=Settings()).shift) == SLOW


def told_in_turn(*stretches: tuple[Draw, int]) -> list[set[tuple[str, int]]]:
    """Who is slow in each window of stretches of so many."""
    total, seen = sum(windows for _, windows in stretches), list[KernelDigest]()
    for draw, windows in stretches:
        seen += digests(draw, ranks=RANKS, windows=total)[len(seen) : len(seen) + windows]
    out, past = [], list[KernelDigest]()
    for one in seen:
        now = one.after(past)
        out.append(named(now, vote(now, past, settings=Settings()).shift))
        past = [*past, now.slim()][-KEPT:]
    return out


@pytest.mark.slow
def test_a_change_that_lasts_is_never_the_past_and_one_that_is_over_is_forgotten() -> None:
    told = told_in_turn((even_long, 4), (six_of_eight, 2 * KEPT), (even_long, 4))
    assert not any(told[:5])
    assert told[5 : 4 + 2 * KEPT] == [SLOW] * (2 * KEPT - 1)
    assert not any(told[4 + 2 * KEPT :])


@pytest.mark.slow
def test_a_change_of_the_whole_job_accuses_nobody_and_hides_nobody() -> None:
    def longer(draw: Draw) -> Draw:
        return lambda rng, rank, kernel: 1.5 * draw(rng, rank, kernel)

    assert not any(told_in_turn((even_long, 4), (longer(even_long), 6)))
    told = told_in_turn(
        (even_long, 4), (six_of_eight, 3), (longer(six_of_eight), KEPT + 2), (longer(even_long), 3)
    )
    assert told[5 : 9 + KEPT] == [SLOW] * (KEPT + 4)
    assert not any(told[9 + KEPT :])


@pytest.mark.slow
def test_a_device_with_a_spike_in_two_windows_did_not_turn_slow() -> None:
    def late(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        durations = even_long(rng, rank, kernel)
        durations[:1] *= 40.0 if rank == 3 and kernel == 2 else 1.0
        return durations

    assert changed_at_the_end(late) == set()
