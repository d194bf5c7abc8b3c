"""Which repeated hits are luck: laws of the test, at the sizes that matter."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.luck import lasting, rate_of_others

WINDOWS, NEEDED = 3, 2


def judged(hits: np.ndarray, *, kernels: int = 50, each: float = 5.0) -> np.ndarray:
    """Ranks that last, if every hit is `each` spikes."""
    rate = rate_of_others(hits, hits, windows=WINDOWS, kernels=kernels)
    return lasting(hits, windows=WINDOWS, needed=NEEDED, rate=rate, spikes=each * hits)


@pytest.mark.parametrize("num", [8, 64, 1024])
def test_one_rank_hit_again_and_again_among_spared_ones_is_no_luck(num: int) -> None:
    hits = np.zeros(num, np.int64)
    hits[3] = 2
    assert judged(hits).nonzero()[0].tolist() == [3]


@pytest.mark.parametrize(("num", "least"), [(8, 3.0), (64, 1.5), (1024, 1.0)])
def test_two_spikes_on_one_of_few_ranks_are_luck_although_all_others_are_spared(
    num: int, least: float
) -> None:
    hits = np.zeros(num, np.int64)
    hits[3] = 2
    assert judged(hits, each=least).nonzero()[0].tolist() == [3]
    assert not judged(hits[:64], each=1.0).any()


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6])
def test_spikes_that_fall_on_everybody_alike_accuse_few_in_many_draws(rate: float) -> None:
    rng = np.random.default_rng(1)
    false = sum(int(judged(rng.binomial(WINDOWS, rate, 64)).sum() > 0) for _ in range(400))
    assert false <= 4  # a chance of LUCK each


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_where_many_ranks_are_sick_two_rates_tell_them_apart(share: float) -> None:
    rng = np.random.default_rng(2)
    sick = np.arange(64) < share * 64
    found = judged(np.where(sick, rng.binomial(WINDOWS, 0.9, 64), rng.binomial(WINDOWS, 0.01, 64)))
    assert found[sick].mean() > 0.9 and not found[~sick].any()


def test_spikes_of_other_kernels_count_against_a_spared_one() -> None:
    hits = np.zeros(64, np.int64)
    hits[3] = 2
    everywhere = np.full(64, 60)
    rate = rate_of_others(hits, everywhere, windows=WINDOWS, kernels=100)
    assert not lasting(hits, windows=WINDOWS, needed=NEEDED, rate=rate, spikes=hits * np.float64(9.0)).any()


def test_ranks_may_be_renamed() -> None:
    rng = np.random.default_rng(3)
    hits = rng.binomial(WINDOWS, 0.2, 40)
    order = rng.permutation(40)
    assert (judged(hits[order]) == judged(hits)[order]).all()
