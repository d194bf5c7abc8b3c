"""Slow drift over days: found at its least slope, never made of noise, spikes or a step long ago."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.drift import LENGTHS, drifts, theil_sen

NUM_DAYS = max(LENGTHS)
DAYS = np.arange(100, 100 + NUM_DAYS)


def fleet(units: int = 64, *, noise: float = 0.002, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.01, (units, 1)) + rng.normal(0, noise, (units, NUM_DAYS))


@pytest.mark.parametrize(("slope", "since"), [(0.004, 0), (0.005, 12), (0.01, 18)])
def test_a_drift_is_found_with_its_slope_in_the_interval(slope: float, since: int) -> None:
    values = fleet()
    values[7, since:] += slope * np.arange(NUM_DAYS - since)
    (found,) = drifts(DAYS, values)
    assert found.unit == 7 and found.low <= slope <= found.high
    assert found.slope == pytest.approx(slope, rel=0.25) and found.significance > 1


def test_a_healthy_fleet_does_not_drift() -> None:
    assert sum(len(drifts(DAYS, fleet(256, seed=seed))) for seed in range(20)) == 0
    assert drifts(DAYS, fleet(8, noise=0.05)) == ()


def test_below_the_least_slope_and_below_five_days_nothing_is_said() -> None:
    values = fleet(noise=0.0005)
    values[7] += 0.0015 * np.arange(NUM_DAYS)
    assert drifts(DAYS, values) == ()
    values = np.full((4, NUM_DAYS), np.nan)
    values[:, -4:] = 0.0
    values[2, -4:] = [0.0, 0.02, 0.04, 0.06]
    assert drifts(DAYS, values) == ()


def test_one_bad_day_is_no_drift_and_a_fall_is_none_either() -> None:
    values = fleet()
    values[3, -3] += 0.5
    values[5] -= 0.01 * np.arange(NUM_DAYS)
    assert drifts(DAYS, values) == ()


def test_days_may_be_missing_but_not_most_of_them() -> None:
    values = fleet()
    values[7] += 0.01 * np.arange(NUM_DAYS)
    values[7, [3, 9, 15]] = np.nan
    assert [found.unit for found in drifts(DAYS, values)] == [7]
    values[7, 2::2] = np.nan
    values[7, -2:] = np.nan
    assert drifts(DAYS, values) == ()


def test_units_in_another_order_drift_in_that_order() -> None:
    values = fleet()
    values[7] += 0.006 * np.arange(NUM_DAYS)
    (found,) = drifts(DAYS, values[::-1])
    assert found.unit == len(values) - 1 - 7


@pytest.mark.parametrize(
    "values", [np.full((3, NUM_DAYS), np.nan), np.empty((0, NUM_DAYS)), np.zeros((2, 1))]
)
def test_nothing_seen_is_nothing_said(values: np.ndarray) -> None:
    assert drifts(DAYS[: values.shape[1]], values) == ()


def test_five_days_of_six_tell_both_ends_of_the_interval() -> None:
    values = np.full((8, NUM_DAYS), np.nan)
    values[:, -6:] = fleet(8, noise=0.0005)[:, -6:]
    values[3, -6:] += [0.0, 0.01, np.nan, 0.031, 0.04, 0.05]
    (found,) = drifts(DAYS, values)
    assert found.days == 5 and found.low <= 0.01 <= found.high and np.isfinite(found.width)


def test_the_slope_withstands_outliers() -> None:
    days = np.arange(12.0)
    values = 0.5 * days
    values[4] += 40
    slope, low, high = theil_sen(days, values)
    assert slope == pytest.approx(0.5, abs=0.05) and low <= 0.5 <= high
    assert all(np.isnan(theil_sen(days[:1], values[:1])))
