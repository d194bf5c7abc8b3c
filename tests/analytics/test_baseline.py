"""Of thousands of ranks some say as much about the noise of healthy ones as all of them."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.baseline import ENOUGH, Outlier, outliers

RANKS, WINDOWS, SLOW = 10_240, 30, 4_321


def _noise(seed: int, *, num: int = RANKS) -> tuple[np.ndarray, np.ndarray]:
    """Deviations of the present window and of the past; one rank of it is far out."""
    rng = np.random.default_rng(seed)
    now, past = rng.normal(0, 0.01, num), rng.normal(0, 0.01, (WINDOWS, num))
    now[SLOW % num] = 0.2
    return now, past


def _test(now: np.ndarray, past: np.ndarray, asked: np.ndarray | None) -> Outlier:
    return outliers(
        now, past, tests=len(now), window_s=20.0, budget_per_day=0.1, learns_level=True, asked=asked
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_of_who_is_asked_for_is_nearly_that_of_all(seed: int) -> None:
    now, past = _noise(seed)
    some, every = _test(now, past, now > 0.03), _test(now, past, None)
    assert np.flatnonzero(some.exceeds).tolist() == np.flatnonzero(every.exceeds).tolist() == [SLOW]
    assert some.limit[SLOW] == pytest.approx(every.limit[SLOW], rel=0.03)
    assert some.scale[SLOW] == pytest.approx(every.scale[SLOW], rel=0.03)


def test_who_is_not_asked_for_exceeds_nothing() -> None:
    now, past = _noise(1)
    now[17] = 0.3
    test = _test(now, past, np.arange(RANKS) == SLOW)
    assert np.flatnonzero(test.exceeds).tolist() == [SLOW]


def test_few_are_all_looked_at() -> None:
    now, past = _noise(2, num=ENOUGH)
    asked = now > 0.03
    some, every = _test(now, past, asked), _test(now, past, None)
    assert np.array_equal(some.limit, every.limit)
    assert np.array_equal(some.exceeds, every.exceeds)
