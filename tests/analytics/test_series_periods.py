"""What repeats in step times: in steps or in seconds, how far apart, and what only looks like it."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.series.follow import read_whole
from argus.analytics.series.period import periods_of, repeats
from tests.analytics.test_series import kinds, noise


def test_slow_steps_at_a_fixed_distance_are_a_period_in_steps() -> None:
    values = noise(500, spread=0.01)
    values[::25] *= 1.8
    state, events = read_whole(values)
    period = state.rhythm.periods[0]
    assert (period.lag, period.unit) == (25, "values")
    late = [event for event in events if event.kind == "spike" and event.start > 200]
    assert late == []


def test_slow_steps_at_a_fixed_time_are_a_period_in_seconds() -> None:
    """Every 60 s, while the length of a step wanders: the distance in steps does too."""
    rng = np.random.default_rng(4)
    values, at, due = [], 0.0, 60.0
    wander = 1 + 0.12 * np.sin(np.arange(400) / 23)
    for step in range(400):
        took = 2.0 * wander[step] * rng.normal(1, 0.005)
        if at >= due:
            took, due = took * 1.7, due + 60.0
        at += took
        values.append(took)
    found = periods_of(np.array(values))
    assert found
    assert found[0].unit == "s" and found[0].length == pytest.approx(60.0, rel=0.06)


@pytest.mark.parametrize("every", [4, 8, 20])
@pytest.mark.parametrize("ratio", [3.0, 10.0])
def test_steps_that_take_many_times_as_long_at_a_fixed_distance_are_a_period_in_steps(
    every: int, ratio: float
) -> None:
    """They stretch the time: over it as many seconds apart as others are steps."""
    values = noise(500, spread=0.01)
    values[::every] *= ratio
    assert [(one.unit, one.lag) for one in periods_of(values)] == [("values", every)]


@pytest.mark.parametrize("ratio", [4.0, 6.0])
def test_a_period_in_seconds_is_as_long_as_it_is_however_long_its_slow_steps(ratio: float) -> None:
    rng = np.random.default_rng(4)
    values, at, due = [], 0.0, 40.0
    for step in range(512):
        took = 2.0 * (1 + 0.12 * np.sin(step / 23)) * rng.normal(1, 0.005)
        if at >= due:
            took, due = took * ratio, due + 40.0
        at += took
        values.append(took)
    period = next(one for one in periods_of(np.array(values)) if one.unit == "s")
    assert period.length == pytest.approx(40.0, rel=0.04)
    assert period.lag == pytest.approx(40.0 / np.mean(values), abs=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_period_between_two_numbers_of_values_is_told_and_no_multiple_that_falls_on_one(seed: int) -> None:
    """Three times 7.3 seconds are 19 values, once is 6 and a half."""
    rng = np.random.default_rng(seed)
    values, at, due = [], 0.0, 7.3
    for _ in range(512):
        took = float(np.exp(rng.normal(0, 0.03)))
        if at + took >= due:
            took, due = 2 * took, due + 7.3
        at += took
        values.append(took)
    assert periods_of(np.array(values))[0].lag == pytest.approx(7.3 / np.mean(values), abs=1.0)


def test_noise_and_trends_have_no_period() -> None:
    for seed in range(5):
        assert periods_of(noise(512, seed=seed)) == ()
    assert periods_of(np.linspace(1, 1.5, 512) * noise(512, spread=0.005)) == ()
    walk = np.exp(np.cumsum(np.random.default_rng(2).normal(0, 0.01, 512)))
    assert all(period.strength < 0.9 for period in periods_of(walk))


def test_rare_slow_steps_are_a_period_in_steps() -> None:
    """Every 400 steps: more than three fit into no memory of values, yet four of them are enough."""
    values = noise(2700, spread=0.01)
    values[70::400] *= 3
    _, events = read_whole(values)
    (periodic,) = [event for event in events if event.kind == "periodic"]
    assert periodic.period is not None
    assert (periodic.period.length, periodic.period.unit) == (400.0, "values")
    assert [event.start for event in events if event.kind == "spike"] == [70, 470, 870, 1270]


def test_rare_slow_steps_at_a_fixed_time_are_a_period_in_seconds() -> None:
    rng = np.random.default_rng(9)
    values, at, due = [], 0.0, 300.0
    for step in range(1600):
        took = 2.0 * (1 + 0.15 * np.sin(step / 170)) * rng.normal(1, 0.01)
        if at >= due:
            took, due = took * 3, due + 300.0
        at += took
        values.append(took)
    _, events = read_whole(values)
    (periodic,) = [event for event in events if event.kind == "periodic"]
    assert periodic.period is not None and periodic.period.unit == "s"
    assert periodic.period.length == pytest.approx(300.0, rel=0.02)


def test_slow_steps_at_random_have_no_period() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        values = noise(2000, seed=seed, spread=0.01) * np.where(rng.random(2000) < 0.01, 3, 1)
        _, events = read_whole(values)
        assert "periodic" not in kinds(events)


@pytest.mark.parametrize("missing", [59, 60, 61])
def test_a_value_that_is_missing_hides_none_beside_it(missing: int) -> None:
    values = np.ones(100)
    values[[30, 60, 90]] = 2.0
    values[missing] = np.nan
    assert repeats(values, 90, lag=30, similar=0.8) == (missing != 60)
