"""Whether ranks that are hit again and again are hit by luck: rare spikes fall on every rank now and then."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.peers import Bools, Ints
from argus.analytics.special import betainc

Floats = NDArray[np.float64]

LUCK = 1e-3
"""Ranks that may last by luck, per kernel and window."""

HALF_A_HIT = 0.5
"""What a rate is at least: half a hit in all that was looked at (Jeffreys), for nobody has seen rate nought."""

TWO_RATES = 13.8
"""Twice the log likelihood that a second rate must gain: two more parameters, at a chance of `LUCK`."""

SURELY = 0.01
"""Chance that a rank has the lower of two rates, above which it is not accused."""

ROUNDS = 60
"""Steps of the fit; what has not settled by then is no clear second rate."""


def lasting(hits: Ints, *, windows: int, needed: int, rate: Floats, spikes: Floats) -> Bools:
    """Ranks hit in at least `needed` of `windows` windows, and that is not luck. All (rank,).

    Luck at the rate g of the others (`rate_of_others`) lets N · C(windows, needed) · gⁿᵉᵉᵈᵉᵈ ranks last; that must
    be few, and as few must have as many of all the `spikes`, were each to fall on any rank. Where many ranks are
    sick they make up that rate themselves: then two rates must explain the hits far better than one, and a rank
    must have the higher.

    >>> hits = np.array([3, 0, 0, 0, 1])
    >>> lasting(hits, windows=3, needed=2, rate=np.full(5, 0.001), spikes=9.0 * hits).tolist()
    [True, False, False, False, False]
    """
    often = hits >= needed
    if windows < needed or len(hits) < 2 or not often.any():
        return often
    lucky = len(hits) * comb(windows, needed) * np.minimum(rate, 1.0) ** needed
    lucky = np.maximum(lucky, as_many_by_luck(spikes))
    return np.asarray(often & ((lucky <= LUCK) | _has_the_higher_rate(hits, windows=windows)))


def as_many_by_luck(spikes: Floats) -> Floats:
    """Ranks that have as many spikes as this one, were each spike to fall on any of them alike. (rank,)

    Nothing is taken for a rate here: of two spikes among eight ranks both are on one rank in an eighth of all jobs.

    >>> as_many_by_luck(np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(3).tolist()
    [0.125, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    """
    mine, num = np.floor(spikes), len(spikes)
    # The binomial's upper tail as an incomplete beta function.
    many = betainc(np.maximum(mine, 1.0), mine.sum() - np.maximum(mine, 1.0) + 1.0, 1.0 / num)
    return np.where(mine > 0, num * many, float(num))


def rate_of_others(hits: Ints, pooled: Ints, *, windows: int, kernels: int) -> Floats:
    """How often the other ranks are hit in a window, by this kernel or by all of them, whichever is more. (rank,)

    `hits` (rank,) of this kernel and `pooled` (rank,) of all `kernels` in `windows` windows: where spikes are a
    fact of the job's life, a kernel that has been spared so far has been lucky.
    """
    tests = max(len(hits) - 1, 1) * windows
    mine = (hits.sum() - hits) / tests
    all_of_them = (pooled.sum() - pooled + HALF_A_HIT) / (tests * max(kernels, 1))
    return np.asarray(np.maximum(mine, all_of_them))


def _has_the_higher_rate(hits: Ints, *, windows: int) -> Bools:
    """Ranks that surely have the higher of two hit rates; none where one rate does. (rank,)"""
    kinds = np.arange(windows + 1)
    seen = np.bincount(hits, minlength=windows + 1).astype(np.float64)
    one = seen @ np.log(_binomial(kinds, float(hits.mean()) / windows, windows=windows))
    low, high, sick = 0.5 * float(hits.mean()) / windows, float(hits.max()) / windows, 0.5
    for _ in range(ROUNDS):
        is_high = _posterior(kinds, low, high=high, sick=sick, windows=windows)
        weight = np.array([seen * (1.0 - is_high), seen * is_high])
        total = np.maximum(weight.sum(axis=1), 1e-9)
        low, high = ((weight @ kinds) / (total * windows)).tolist()
        sick = float(total[1] / seen.sum())
    of_low = (1.0 - sick) * _binomial(kinds, low, windows=windows)
    two = seen @ np.log(of_low + sick * _binomial(kinds, high, windows=windows))
    if 2.0 * (two - one) < TWO_RATES:
        return np.zeros(len(hits), np.bool_)
    healthy = 1.0 - _posterior(kinds, low, high=high, sick=sick, windows=windows)
    return np.asarray((healthy <= SURELY)[hits])


def _posterior(kinds: Ints, low: float, *, high: float, sick: float, windows: int) -> Floats:
    """Chance of the higher rate by number of hits."""
    of_high = sick * _binomial(kinds, high, windows=windows)
    of_low = (1.0 - sick) * _binomial(kinds, low, windows=windows)
    return np.asarray(of_high / (of_high + of_low))


def _binomial(kinds: Ints, rate: float, *, windows: int) -> Floats:
    """Chance of each number of hits, never nought."""
    rate = min(max(rate, 1e-6), 1.0 - 1e-6)
    ways = np.array([comb(windows, int(k)) for k in kinds], np.float64)
    return np.asarray(ways * rate**kinds * (1.0 - rate) ** (windows - kinds))
