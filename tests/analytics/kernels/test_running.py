"""The running mean of all windows: what three windows cannot show, nothing that is over, and of a fixed size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from argus.analytics.kernels.average import Parts, averaged
from argus.analytics.kernels.digest import KEPT
from argus.analytics.kernels.running import MEMORY, Running, over_all
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import Durations, candidates, digests, in_turn, named, peers_of

KERNELS, RANKS, SICK = 6, 64, 5
SETTINGS = Settings()
Reals = NDArray[np.float32]


def window(number: int, *, effect: float = 0.0, spread: float = 0.1, factor: float = 0.0) -> Parts:
    """Noise of `spread`; the sick rank's first kernel has the effect beside it, all its kernels the factor."""
    rng = np.random.default_rng(number)
    shared = np.where(np.arange(RANKS) == SICK, np.float32(factor), np.float32(0.0))
    parts = (spread * rng.standard_normal((3, KERNELS, RANKS))).astype(np.float32) + shared
    parts[:, 0, SICK] += effect
    p50, mean, top = parts.astype(np.float16)
    return Parts(p50=p50, mean=mean, top=top, factor=shared)


def followed(windows: list[Parts]) -> Running:
    running = Running.empty((KERNELS, RANKS))
    for one in windows:
        running = running.extended(one, settings=SETTINGS)
    return running


def told(windows: list[Parts]) -> list[tuple[int, int]]:
    """(kernel, rank) that the running mean flags in the last window."""
    zero = np.zeros((KERNELS, RANKS), np.float32)
    found = candidates(zero, factor=windows[-1].factor)
    running = followed(windows)
    one = over_all(running, windows[-3:], found, peers_of(RANKS), noise=zero, mean=zero, settings=SETTINGS)
    return [(int(k), int(r)) for k, r in np.argwhere(one.flags)]


def test_it_is_the_plain_mean_at_first_and_forgets_later() -> None:
    windows = [window(n, effect=0.3) for n in range(MEMORY)]
    running = followed(windows)
    plain = np.mean([np.array([w.p50, w.mean, w.top], np.float32) for w in windows], axis=0)
    assert np.allclose(running.value, plain, atol=1e-4)
    assert (running.times == MEMORY).all()
    for number in range(6 * MEMORY):
        running = running.extended(window(1000 + number), settings=SETTINGS)
    assert running.value[1, 0, SICK] < 0.1
    assert running.times.max() == MEMORY


def test_what_is_a_standard_error_in_one_window_is_found_in_many_and_not_in_three() -> None:
    windows = [window(n, effect=0.1) for n in range(40)]
    assert told(windows) == [(0, SICK)]
    assert told(windows[:4]) == []
    zero = np.zeros((KERNELS, RANKS), np.float32)
    found = candidates(zero, factor=windows[-1].factor)
    last = averaged(windows[-3:], found, peers_of(RANKS), noise=zero, mean=zero, settings=SETTINGS)
    assert not last.flags.any()


def test_a_fault_that_begins_late_is_found_within_the_memory() -> None:
    healthy = [window(n) for n in range(100)]
    windows = healthy + [window(1000 + n, effect=0.15) for n in range(2 * MEMORY)]
    assert told(healthy) == []
    assert told(windows) == [(0, SICK)]


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([window(n) for n in range(40)], "healthy"),
        ([window(n, effect=0.2 * (n != 39)) for n in range(40)], "over, as the newest window says"),
        ([window(n, effect=4.0 * (n in (20, 39))) for n in range(40)], "two gross windows"),
        ([window(n, effect=-0.2) for n in range(40)], "faster"),
        ([window(n, factor=0.2) for n in range(40)], "the rank's own factor"),
    ],
)
def test_nothing_else_is(windows: list[Parts], why: str) -> None:
    if why.startswith("over"):
        windows[-1].mean[0, SICK] = -0.05
    assert told(windows) == [], why


def test_a_rank_that_was_away_is_asked_when_it_has_caught_up() -> None:
    def away(one: Parts) -> Parts:
        for part in (one.p50, one.mean, one.top):
            part[:, SICK] = np.nan
        return one

    early = [window(n, effect=0.2) for n in range(10)]
    assert told(early) == [(0, SICK)]
    assert told([away(window(100)), *early]) == []
    later = [window(200 + n, effect=0.2) for n in range(MEMORY)]
    assert told([away(window(100)), *early, *later]) == [(0, SICK)]


def wide(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """Twenty launches over a mix of lengths, an eleven-fold range of durations; the other kernels are narrow."""
    spread = rng.uniform(0.0, 2.4, 20) if kernel == 3 else 0.02 * rng.normal(size=20)
    return 2e4 * np.exp(spread) * (1.2 if rank == SICK and kernel == 3 else 1.0)


@pytest.mark.slow
def test_twenty_wide_launches_a_window_show_a_fifth_in_forty_windows() -> None:
    seen = in_turn(digests(wide, ranks=32, windows=40))
    ever = [
        named(one, vote(one, seen[max(n - KEPT, 0) : n], settings=SETTINGS).shift)
        for n, one in enumerate(seen)
    ]
    assert not any(ever[:4])
    assert set().union(*ever) == {("gemm_3", SICK)}
    assert sum(map(bool, ever[-10:])) >= 5


def test_other_kernels_and_ranks_in_between_do_not_end_it() -> None:
    first, second = digests(wide, ranks=8, windows=2)
    before = first.after([])
    assert before.running is not None
    turned = replace(
        before,
        keys=before.keys[:0:-1],
        devices=before.devices[::-1],
        running=before.running.rearranged(lambda values: values[..., :0:-1, ::-1]),
    )
    new, kept = second.after([turned]).running, second.after([before]).running
    assert new is not None and kept is not None
    assert (new.times[0, 0] == 1).all() and (new.times[0, 1:] == 2).all()
    assert np.array_equal(new.value[:, 1:], kept.value[:, 1:])
