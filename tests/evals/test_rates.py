"""Bounds of rare counts are the exact Poisson ones."""

from __future__ import annotations

import math

import pytest

from argus.evals.rates import per_steps, poisson_upper


@pytest.mark.parametrize("count", [0, 1, 2, 5, 20])
def test_the_bound_is_where_so_few_become_improbable(count: int) -> None:
    mean = poisson_upper(count)
    chance = sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count + 1))
    assert chance == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("count", [700, 800, 5000])
def test_the_bound_of_many_lies_as_far_above_them_as_a_normal_one(count: int) -> None:
    assert poisson_upper(count) == pytest.approx(count + 1.645 * math.sqrt(count), abs=3)


def test_no_steps_have_no_rate() -> None:
    assert per_steps(0, 0) is None
    rate = per_steps(2, 50_000)
    assert rate is not None and rate[0] == 4.0 and rate[1] == pytest.approx(12.59, abs=0.01)
