"""The stated error of a kernel's comparison: healthy ranks stay within three of it, however few their launches."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.effects import Effects, effects_of_all
from argus.analytics.kernels.error import standard_error
from tests.analytics.kernels.kit import NUM_KERNELS, Durations, modes, peers_of, table_of

RANKS, SICK = 64, 5
NOBODY = np.zeros(RANKS, np.bool_)


def effects_of(num: int, sigma: float, *, ranks: int = RANKS, factor: float = 1.0) -> Effects:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        return modes(rng, 1000.0, n=num, sigma=sigma) * (factor if rank == SICK else 1.0)

    return effects_of_all(table_of(draw, ranks=ranks, seed=num), peers_of(ranks))


def errors(effects: Effects) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(kernel, rank)"""
    peers = peers_of(RANKS)
    return np.array(
        [
            [
                standard_error(effects, peers, kernel=kernel, rank=rank, accused=NOBODY)
                for rank in range(RANKS)
            ]
            for kernel in range(NUM_KERNELS)
        ]
    )


@pytest.mark.parametrize("num", [1, 3, 20, 100])
@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_healthy_ranks_are_within_three_errors(num: int, sigma: float) -> None:
    effects = effects_of(num, sigma)
    error = errors(effects)
    assert np.mean(np.abs(effects.shift) > 3.0 * error) < 0.016  # 0.27 % are meant, of 512
    assert error.mean() < 1.5 * np.std(effects.shift)


def test_a_slow_rank_does_not_widen_its_own_error_and_a_lone_pair_has_that_of_sampling() -> None:
    healthy, sick = effects_of(20, 0.1), effects_of(20, 0.1, factor=1.5)
    assert errors(sick)[:, SICK] == pytest.approx(errors(healthy)[:, SICK], rel=0.25)
    pair = effects_of(20, 0.1, ranks=2)
    alone = standard_error(pair, peers_of(2), kernel=0, rank=0, accused=NOBODY[:2])
    assert alone == float(pair.noise[0, 0])


def test_the_sampling_error_of_a_median_is_that_of_as_many_launches() -> None:
    """1.25 sigma over the root of the launches: p99 of a few launches lies nearer to their median than that of many."""
    for num in (5, 20, 100, 400):
        noise = np.median(effects_of(num, 0.3, ranks=8).noise) * np.sqrt(2.0)  # of median and mean alike
        assert noise * np.sqrt(num) / (1.25 * 0.3) == pytest.approx(1.0, abs=0.3)
