"""Slow drift of a GPU over days: the Theil–Sen slope of its daily ratio to its peers, beyond the fleet's noise.

Sen (1968): the median of the slopes of all pairs of days, with a distribution-free interval from Kendall's S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import FALSE_ALARMS_PER_DAY
from argus.analytics.robust import tail_point, tail_probability
from argus.analytics.window import Floats, Ints

MIN_SLOPE = 0.003
"""Logarithm a day: 0.3 % a day is 10 % in a month."""

MIN_DAYS = 5
"""Fewer days are a bad week-end."""

LENGTHS = (6, 12, 24)
"""Days looked back: six see a drift that began last week, 24 one that is hard to tell from noise."""

MIN_PRESENT = 0.7
"""Share of the days looked back in which the GPU must have been seen."""

INTERVAL_Z = 1.96
"""The slope's interval is that of 95 %."""

NOISE_FLOOR = 0.001
"""Daily means of thousands of windows agree to a thousandth at best: rates of clocks and of work vary."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Slope with its interval, logarithm a day; `days` it was seen in of the last `length`."""

    unit: int
    slope: float
    low: float
    high: float
    days: int
    length: int
    level: float
    significance: float

    @property
    def width(self) -> float:
        """Width of the slope's interval."""
        return self.high - self.low if np.isfinite(self.high) else np.inf


def theil_sen(days: Floats, values: Floats) -> tuple[float, float, float]:
    """Slope with the bounds of its interval; (nan, nan, nan) for fewer than two days.

    >>> slope, low, high = theil_sen(np.arange(8.0), 0.5 * np.arange(8.0) + np.array([0, 0, 9, 0, 0, 0, 0, 0]))
    >>> bool(low <= 0.5 <= high and abs(slope - 0.5) < 0.1)
    True
    """
    n = len(days)
    if n < 2:
        return (np.nan, np.nan, np.nan)
    i, j = np.triu_indices(n, 1)
    slopes = np.sort((values[j] - values[i]) / (days[j] - days[i]))
    reach = INTERVAL_Z * np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = int(np.floor((len(slopes) - reach) / 2))
    high = int(np.ceil((len(slopes) + reach) / 2))
    if n == MIN_DAYS:  # all of their slopes are in it: they rise on every pair of days by chance once in 120
        high = len(slopes) - 1
    bounds = [float(slopes[k]) if 0 <= k < len(slopes) else np.nan for k in (low, high)]
    return float(np.median(slopes)), bounds[0], bounds[1]


def drifts(
    days: Ints,
    values: Floats,
    *,
    num_tests: int | None = None,
    min_slope: float = MIN_SLOPE,
    budget: float = FALSE_ALARMS_PER_DAY,
) -> tuple[Drift, ...]:
    """Units whose daily value rises; `values` are (unit, day), NaN = not seen, `days` consecutive.

    The noise of a day is that of all units together, so that no unit's own noise hides or makes a drift. Of
    several lengths the one with the surest slope is told.
    """
    noise = _noise(values)
    tests = (num_tests or len(values)) * len(LENGTHS)
    limit = tail_point(budget / max(tests, 1), 1e6)
    found: dict[int, Drift] = {}
    for length in LENGTHS:
        recent, when = values[:, -length:], days[-length:].astype(np.float64)
        if recent.shape[1] < MIN_DAYS:
            continue
        for unit in _rising(when, recent, min_slope=min_slope):
            drift = _drift(when, recent[unit], noise=noise, unit=unit, length=length, tests=tests)
            if drift is None or drift[0] < limit or drift[1].slope < min_slope or not drift[1].low > 0:
                continue
            if unit not in found or drift[1].width < found[unit].width:
                found[unit] = drift[1]
    return tuple(found[unit] for unit in sorted(found))


def _rising(when: Floats, recent: Floats, *, min_slope: float) -> Sequence[int]:
    """Units worth a closer look: seen on enough days, one of the last two among them, and rising at all."""
    seen = np.isfinite(recent)
    count = seen.sum(axis=1)
    enough = (count >= max(MIN_DAYS, int(MIN_PRESENT * recent.shape[1]))) & seen[:, -2:].any(axis=1)
    filled = np.where(seen, recent, 0.0)
    mean_x = (seen * when).sum(axis=1) / np.maximum(count, 1)
    mean_y = filled.sum(axis=1) / np.maximum(count, 1)
    dx = np.where(seen, when - mean_x[:, None], 0.0)
    slope = (dx * (filled - mean_y[:, None])).sum(axis=1) / np.maximum((dx**2).sum(axis=1), 1e-12)
    chosen: list[int] = np.flatnonzero(enough & (slope >= 0.5 * min_slope)).tolist()
    return chosen


def _drift(
    when: Floats, values: Floats, *, noise: float, unit: int, length: int, tests: int
) -> tuple[float, Drift] | None:
    """How many standard errors a unit's slope is, with the slope; None if it spans too few days."""
    seen = np.isfinite(values)
    days = when[seen]
    if days[-1] - days[0] < MIN_DAYS - 1:
        return None
    slope, low, high = theil_sen(days, values[seen])
    error = noise / np.sqrt(((days - days.mean()) ** 2).sum())
    score = slope / error
    expected = tail_probability(score, 1e6) * tests
    return score, Drift(
        unit=unit,
        slope=slope,
        low=low,
        high=high,
        days=int(seen.sum()),
        length=length,
        level=float(np.median(values[seen][-3:])),
        significance=float(-np.log10(max(expected, 1e-300))),
    )


def _noise(values: Floats) -> float:
    """Spread of a day around its neighbours, over all units: differences know no slow trend."""
    steps = np.diff(values, axis=1)
    seen = steps[np.isfinite(steps)]
    if not seen.size:
        return NOISE_FLOOR
    middle = np.median(seen)
    return max(float(1.4826 * np.median(np.abs(seen - middle)) / np.sqrt(2)), NOISE_FLOOR)
