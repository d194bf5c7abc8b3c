"""Half of the ranks slow: told where a gap parts them, and one population of few ranks is never two."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.digest import KEPT, KernelDigest
from argus.analytics.kernels.halves import least_gap, slower_half
from argus.analytics.kernels.peers import Bools, classes
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import Draw, Durations, digests, healthy, named, peers_of

SETTINGS = Settings()
ROWS = 50_000


def parted(values: Reals, *, noise: float = 0.0, mean: Reals | None = None) -> Bools:
    """Who is told of one class. (row, rank)"""
    return slower_half(
        values,
        peers_of(values.shape[1]),
        kernels=np.arange(len(values)),
        mean=values if mean is None else mean,
        noise=np.full(values.shape, noise, np.float32),
        settings=SETTINGS,
    )


def normal(ranks: int, *, rows: int = ROWS, deviation: float = 0.03) -> Reals:
    return (deviation * np.random.default_rng(ranks).standard_normal((rows, ranks))).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8, 9, 10, 12, 16, 24])
def test_one_normal_population_is_not_two(ranks: int) -> None:
    assert parted(normal(ranks)).any(axis=1).sum() <= 2


def test_few_ranks_must_lie_further_apart_and_many_as_the_setting_says() -> None:
    gaps = least_gap(np.arange(8, 4096), settings=SETTINGS)
    assert (np.diff(gaps) < 0).all() and gaps[-1] >= SETTINGS.gap


@pytest.mark.parametrize("ranks", [8, 12, 32])
def test_a_gap_is_told_unless_sampling_explains_it(ranks: int) -> None:
    values = normal(ranks, rows=1, deviation=0.002)
    values[0, : ranks // 2] += 0.1
    assert np.flatnonzero(parted(values)[0]).tolist() == list(range(ranks // 2))
    assert not parted(values, noise=0.02).any()


def test_ranks_without_the_kernel_take_nothing_from_the_others() -> None:
    values = normal(32, rows=3, deviation=0.005)
    values[:, :12] += 0.2
    values[1, 31] = values[2, 5] = np.nan
    told = parted(values)
    assert [np.flatnonzero(row).tolist() for row in told] == [
        list(range(12)),
        list(range(12)),
        [rank for rank in range(12) if rank != 5],
    ]
    # Seven are too few to be parted, whoever else is in their class.
    values[:, :25] = np.nan
    assert not parted(values).any()


def test_each_class_is_parted_by_itself() -> None:
    values = normal(32, rows=1, deviation=0.005)
    values[0, 3:8] += 0.2
    told = slower_half(
        values,
        classes(np.arange(32), np.arange(32) // 16),
        kernels=np.arange(1),
        mean=values,
        noise=np.zeros_like(values),
        settings=SETTINGS,
    )
    assert np.flatnonzero(told[0]).tolist() == list(range(3, 8))


def told_in_turn(draw: Draw, *, windows: int, ranks: int = 8) -> list[set[tuple[str, int]]]:
    """Who is slow in each window."""
    out, past = [], list[KernelDigest]()
    for one in digests(draw, ranks=ranks, windows=windows):
        now = one.after(past)
        out.append(named(now, vote(now, past, settings=SETTINGS).shift))
        past = [*past, now.slim()][-KEPT:]
    return out


@pytest.mark.slow
def test_half_of_eight_ranks_by_a_tenth_is_told() -> None:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        return healthy(rng, rank, kernel) * (1.1 if rank % 2 and kernel == 3 else 1.0)

    told = told_in_turn(draw, windows=6)
    assert told[2:] == [{("gemm_3", rank) for rank in (1, 3, 5, 7)}] * 4


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.5, 0.8])
def test_few_widely_strewn_launches_of_eight_healthy_ranks_are_no_halves(sigma: float) -> None:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        return 1e6 * np.exp(sigma * rng.normal(size=20))

    assert not any(told_in_turn(draw, windows=60))
