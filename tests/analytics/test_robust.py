"""Robust numbers: leave-one-out medians, tail points, healthy noise, split of a series."""

from __future__ import annotations

import math

import numpy as np
import pytest

from argus.analytics.robust import (
    MAX_TAIL,
    MIN_TAIL,
    exponential_limit,
    leave_one_out_median,
    noise_of,
    split_gain,
    tail_point,
    tail_probability,
    vote_probability,
)


@pytest.mark.parametrize("num", [2, 3, 4, 5, 8, 33])
def test_leave_one_out_median_is_the_median_of_the_others(num: int) -> None:
    values = np.random.default_rng(num).integers(0, 9, (3, num)).astype(np.float64)
    expected = [[np.median(np.delete(row, i)) for i in range(num)] for row in values]
    assert leave_one_out_median(values) == pytest.approx(np.array(expected))


def test_leave_one_out_median_of_one_is_unknown() -> None:
    assert np.isnan(leave_one_out_median(np.array([3.0]))).all()


def test_tail_point_agrees_with_the_t_distribution() -> None:
    """Reference values of Student's t quantiles at 1e-4 (one-sided)."""
    for dof, expected in ((10, 5.694), (20, 4.539), (60, 3.962), (1e6, 3.719)):
        assert tail_point(1e-4, dof) == pytest.approx(expected, rel=0.03)
    assert tail_point(1e-9, 1.0) == MAX_TAIL and tail_point(0.4, 100.0) == MIN_TAIL


def test_tail_probability_undoes_tail_point() -> None:
    for chance in (1e-3, 1e-4, 1e-5):
        assert math.log10(tail_probability(tail_point(chance, 40.0), 40.0)) == pytest.approx(
            math.log10(chance), abs=0.25
        )


def test_repetition_makes_the_second_vote_worth_less() -> None:
    lone = vote_probability(budget_per_day=0.1, tests_per_day=1e6, rho=0.0)
    same = vote_probability(budget_per_day=0.1, tests_per_day=1e6, rho=1.0)
    assert same == pytest.approx(0.1 / 3e6) and lone == pytest.approx(math.sqrt(same))


def test_noise_is_that_of_the_typical_rank_however_bad_one_is() -> None:
    rng = np.random.default_rng(2)
    history = rng.normal(0, 0.02, (40, 8))
    clean = noise_of(history)
    history[:, 3] = 0.9  # at fault since step 0, never noticed
    faulty = noise_of(history)
    assert clean.scale.max() < 0.035
    assert faulty.scale[0] == pytest.approx(clean.scale[0], rel=0.3) and faulty.scale[3] < 0.07


def test_little_history_widens_the_limit() -> None:
    rng = np.random.default_rng(2)
    history = rng.normal(0, 0.02, (60, 4))
    limits = [
        noise_of(history[:n]).scale[0] * tail_point(1e-4, noise_of(history[:n]).dof) for n in (0, 4, 60)
    ]
    assert limits[0] > limits[1] > limits[2] > 0.05


def test_nan_is_no_sample() -> None:
    history = np.full((10, 3), np.nan)
    history[:5, 0] = 0.01
    noise = noise_of(history)
    assert np.isfinite(noise.scale).all() and noise.dof == pytest.approx(0.5 + 0.4 * 5)


def test_repeating_noise_is_seen_as_such() -> None:
    rng = np.random.default_rng(3)
    assert noise_of(rng.normal(0, 1, (60, 6))).rho < 0.3
    assert noise_of(np.repeat(rng.normal(0, 1, (10, 6)), 6, axis=0)).rho > 0.6


def test_exponential_limit_holds_for_a_heavy_tail() -> None:
    rng = np.random.default_rng(4)
    history = rng.exponential(0.01, (60, 32))
    limit = exponential_limit(history, 1e-4)
    assert limit == pytest.approx(0.01 * math.log(1e4), rel=0.25)
    assert exponential_limit(history[:10], 1e-4) == -math.inf


def test_split_gain_finds_the_step() -> None:
    rng = np.random.default_rng(6)
    series = np.concatenate([rng.normal(1.0, 0.03, 60), rng.normal(1.1, 0.03, 40)])
    split = split_gain(series, margin=10)
    assert split is not None and abs(split[0] - 60) <= 3
    assert split[2] / split[1] == pytest.approx(1.1, abs=0.03)
    assert split_gain(series[:15], margin=10) is None
