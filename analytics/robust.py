"""Robust numbers without scipy: medians that leave one out, tail points, the noise of a healthy past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from argus.analytics.window import Floats, Ints

PRIOR_SCALE = 0.1
"""Noise assumed of a run nobody has watched yet: healthy jobs on shared machines stay below it."""

PRIOR_DOF = 0.5
"""Weight of the prior in samples: it decides alone at first and is forgotten after a few windows. Scales are
averaged by their logarithm, so that a prior ten times too wide does not linger."""

EFFICIENCY = 0.4
"""A median of absolute deviations knows as much as 0.4 times as many squared deviations."""

MAX_TAIL = 8.0
"""No threshold above this many scales: beyond it ignorance, not noise, would be silencing a fault."""

MIN_TAIL = 3.5
"""No threshold below this many scales, however few tests a day there are."""

SCALE_FLOOR = 0.005
"""Noise below 0.5 % is not believed: clocks and quantisation alone make as much."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Healthy spread of a deviation around zero: `scale` (rank,), its degrees of freedom, and how much
    one window's deviation says about the next (`rho`, 0 to 1)."""

    scale: Floats
    dof: float
    rho: float


def leave_one_out_median(values: Floats) -> Floats:
    """For each entry of the last axis the median of the others; NaN where there is no other.

    >>> leave_one_out_median(np.array([1.0, 2.0, 9.0]))
    array([5.5, 5. , 1.5])
    """
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape, np.nan)
    order = np.argsort(values, axis=-1)
    ranked = np.take_along_axis(values, order, axis=-1)
    place = np.arange(n)
    low, high = (n - 2) // 2, (n - 1) // 2
    others = (ranked[..., low + (place <= low)] + ranked[..., high + (place <= high)]) / 2
    result = np.empty_like(ranked)
    np.put_along_axis(result, order, others, axis=-1)
    return result


TICK_S = 1e-9
"""Values are sorted in units of a nanosecond, the clock's own, where that fits beside the key."""


def grouped_median(values: Floats, key: Ints, num: int) -> Floats:
    """Median of the finite values of each key 0 … num − 1, NaN for keys without any. (num,)

    >>> grouped_median(np.array([1.0, 5.0, 2.0, 9.0]), np.array([0, 0, 0, 2]), 3).tolist()
    [2.0, nan, 9.0]
    """
    out = np.full(num, np.nan)
    if not len(values):
        return out
    count = np.bincount(key, minlength=num)
    some = np.flatnonzero(count)
    first, count = (np.cumsum(count) - count)[some], count[some]
    below, above = first + (count - 1) // 2, first + count // 2
    low = float(values.min())
    span = (float(values.max()) - low) / TICK_S
    bits = max(int(min(span, 2.0**62)).bit_length(), 1)
    if bits + max(num - 1, 1).bit_length() <= 62:
        both = (key << bits) | np.rint((values - low) / TICK_S).astype(np.int64)
        both.sort()
        lower, upper = (low + (both[place] & ((1 << bits) - 1)) * TICK_S for place in (below, above))
    else:
        order = np.lexsort((values, key))
        lower, upper = values[order[below]], values[order[above]]
    out[some] = (lower + upper) / 2
    return out


def tail_point(probability: float, dof: float) -> float:
    """How many scales a t-distributed deviation exceeds with `probability`, within MIN_TAIL and MAX_TAIL."""
    return min(max(student_point(probability, dof), MIN_TAIL), MAX_TAIL)


def student_point(probability: float, dof: float) -> float:
    """Quantile of Student's t that is exceeded with `probability`, at most a half.

    Hill's expansion around the normal one (Abramowitz and Stegun 26.7.5).

    >>> round(student_point(0.01, 10), 2), round(student_point(0.01, 1000), 2)
    (2.76, 2.33)
    """
    z = -NormalDist().inv_cdf(min(max(probability, 1e-300), 0.5))
    nu = max(dof, 1.0)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / nu + g2 / nu**2 + g3 / nu**3


def tail_probability(deviations: float, dof: float) -> float:
    """Inverse of `tail_point` without its limits: probability that noise exceeds `deviations` scales."""
    nu = max(dof, 1.0)
    z = deviations * (1 - 1 / (4 * nu)) / math.sqrt(1 + deviations**2 / (2 * nu))
    return max(0.5 * math.erfc(z / math.sqrt(2)), 1e-300)


def vote_probability(*, budget_per_day: float, tests_per_day: float, rho: float) -> float:
    """Chance a single window may have to exceed, so that 2 of 3 windows do so `budget_per_day` times a day.

    Independent windows need both to exceed by chance (square root); windows that repeat one another
    (`rho` → 1) give the second vote for nothing.
    """
    once = budget_per_day / (3 * max(tests_per_day, 1.0))
    return float(min(once ** (1 / (2 - min(max(rho, 0.0), 1.0))), 0.5))


def noise_of(history: Floats, *, now: Floats | None = None, prior: float = PRIOR_SCALE) -> Noise:
    """Healthy noise from deviations around zero of past windows, (window, rank), NaN = not to be used.

    The scale is the median over ranks of each rank's own spread, so one faulty rank that was never
    noticed cannot widen it; a noisier rank gets up to twice that. `now` (rank,) adds the spread over the
    ranks of the present window, which is all there is in the first one.
    """
    own = _spread(history) if len(history) else np.full(history.shape[1], np.nan)
    known = own[np.isfinite(own)]
    typical = float(np.median(known)) if known.size else prior
    dof = EFFICIENCY * float(np.isfinite(history).sum())
    log_scale, weight = PRIOR_DOF * math.log(prior) + dof * _log(typical), PRIOR_DOF + dof
    if now is not None and np.isfinite(now).sum() >= 6:
        across = _spread(now[np.isfinite(now)][:, None])[0]
        add = EFFICIENCY * float(np.isfinite(now).sum() - 1)
        log_scale, weight = log_scale + add * _log(across), weight + add
    pooled = max(math.exp(log_scale / weight), SCALE_FLOOR)
    scale = np.clip(np.where(np.isfinite(own), own, pooled), pooled, 2 * pooled)
    return Noise(scale=scale, dof=weight, rho=_repetition(history))


TAIL_SHARE = 0.2
"""Upper part of the past whose mean excess tells how fast the tail falls."""

TAIL_WINDOWS = 20
"""Windows before a tail is fitted: four values lie in the upper fifth then."""


def exponential_limit(history: Floats, probability: float) -> float:
    """Value that past deviations (window, rank) exceed with `probability` if their upper tail falls
    exponentially (peaks over threshold); −inf while too little is known. The median over ranks, so that one
    faulty rank cannot raise it. For noise with heavier tails than the normal one, waiting above all.
    """
    counts = np.isfinite(history).sum(axis=0)
    enough = np.flatnonzero(counts >= TAIL_WINDOWS)
    if not len(enough):
        return -math.inf
    ranked, counts = _sorted_columns(history[:, enough]), counts[enough]
    start = np.floor((1 - TAIL_SHARE) * counts).astype(np.int64)
    threshold = ranked[start - 1, np.arange(len(enough))]
    place = np.arange(len(ranked))[:, None]
    above = (place >= start) & (place < counts)
    excess = np.where(above, ranked - threshold, 0.0).sum(axis=0) / np.maximum(above.sum(axis=0), 1)
    fall = math.log(TAIL_SHARE / min(probability, TAIL_SHARE))
    return float(np.median(threshold)) + float(np.median(excess)) * fall


def _log(scale: float) -> float:
    return math.log(max(scale, SCALE_FLOOR))


def _spread(values: Floats) -> Floats:
    """Spread around zero per column: the larger of what the middle and what the tail say.

    The tail starts at the 95th percentile, with few values at the 80th, lest one of them be the tail.
    """
    ranked = _sorted_columns(np.abs(values))
    counts = np.isfinite(ranked).sum(axis=0)
    result = np.full(values.shape[1], np.nan)
    enough = np.flatnonzero(counts >= 3)
    ranked, counts = ranked[:, enough], counts[enough]
    middle = _quantile(ranked, counts, 0.5)
    upper, tail = _quantile(ranked, counts, 0.8), _quantile(ranked, counts, 0.95)
    outer = np.where(counts < TAIL_WINDOWS, upper / 1.2816, tail / 1.96)
    result[enough] = np.maximum(1.4826 * middle, outer)
    return result


def _sorted_columns(values: Floats) -> Floats:
    """Each column in ascending order, NaN last; sorted as rows, which lie in one piece."""
    return np.sort(np.ascontiguousarray(values.T), axis=1).T


def _quantile(ranked: Floats, counts: Ints, share: float) -> Floats:
    """Linear quantile of each sorted column's first `counts` values."""
    place = share * (counts - 1)
    low = np.floor(place).astype(np.int64)
    column = np.arange(ranked.shape[1])
    below, above = ranked[low, column], ranked[np.minimum(low + 1, counts - 1), column]
    return np.asarray(below + (place - low) * (above - below))


def _repetition(history: Floats) -> float:
    """Median over ranks of the correlation of neighbouring windows, 0 if unknown."""
    if len(history) < 8:
        return 0.0
    before, after = history[:-1], history[1:]
    both = np.isfinite(before) & np.isfinite(after)
    product = np.where(both, np.nan_to_num(before) * np.nan_to_num(after), 0.0).sum(axis=0)
    power = np.where(both, np.nan_to_num(before) ** 2 + np.nan_to_num(after) ** 2, 0.0).sum(axis=0) / 2
    known = power > 0
    if not known.any():
        return 0.0
    return float(np.clip(np.median(product[known] / power[known]), 0.0, 1.0))


def split_gain(values: Floats, *, margin: int) -> tuple[int, float, float] | None:
    """Best split of a series into two means: (first index of the right side, mean left, mean right).

    Least squares over every split with at least `margin` points on either side; None if too short.
    """
    n = len(values)
    if n < 2 * margin:
        return None
    total = np.cumsum(values)
    k = np.arange(margin, n - margin + 1)
    left, right = total[k - 1] / k, (total[-1] - total[k - 1]) / (n - k)
    best = int(np.argmax(k * (n - k) / n * (right - left) ** 2))
    return int(k[best]), float(left[best]), float(right[best])


def middle(values: Floats) -> float:
    """Median of what was observed; NaN where nothing was.

    >>> middle(np.array([1.0, np.nan, 3.0])), middle(np.empty(0))
    (2.0, nan)
    """
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if seen.size else float("nan")


def median_of_columns(values: Floats) -> Floats:
    """Median of what is finite in each column of (row, column), NaN where nothing is. (column,)"""
    ranked = _sorted_columns(values)
    counts = np.isfinite(ranked).sum(axis=0)
    place, column = np.maximum(counts, 1), np.arange(values.shape[1])
    if not len(values):
        return np.full(values.shape[1], np.nan)
    middle = (ranked[(place - 1) // 2, column] + ranked[place // 2, column]) / 2
    return np.asarray(np.where(counts > 0, middle, np.nan))


def matrix(rows: Sequence[Floats], width: int) -> Floats:
    """Rows stacked to (row, width), also when there is none."""
    return np.stack(rows) if rows else np.empty((0, width))


def at(ranks: Ints, rank: int) -> int:
    """Row of `rank` in the sorted array `ranks`, -1 if absent."""
    place = int(np.searchsorted(ranks, rank))
    return place if place < len(ranks) and ranks[place] == rank else -1
