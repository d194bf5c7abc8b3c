"""What repeats in a series of step times, and whether it repeats in steps or in seconds.

Peaks of the autocorrelation of logarithms with their tails cut, so that neither one huge step nor a slow trend
looks like a period; taken once over steps and once over time, whichever repeats the better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats

SHORTEST = 2
"""Values of a period: one would be every value."""

MIN_PERIODS = 3
"""Repetitions before a period is one."""

MIN_CORRELATION = 0.35
"""Eight standard errors at 512 values of noise."""

MIN_ERRORS = 5.0
"""Standard errors of a correlation: the best of a hundred lags, looked at a hundred times, stays below."""

AGAIN_SHARE = 0.5
"""A true period stands out as much over two of it; over time, where every end is blurred by a step, half."""

MIN_PROMINENCE = 0.25
"""How far a peak rises above the lowest point before it: a slow trend correlates everywhere alike."""

MUCH_STRONGER = 1.25
"""Times in seconds must repeat so much better than steps before they are called the cause."""

ABOUT = 0.8
"""Of peaks this near to the highest the first is the period, the others are multiples of it."""

CUT_SCALES = 6.0
SMALL = 1e-3
"""Relative variation below this is rounding."""


@dataclass(frozen=True, kw_only=True)
class Period:
    """`length` in `unit`: values of the series ("values") or seconds ("s"), `lag` in values; `strength` the correlation."""

    length: float
    unit: str
    lag: int
    strength: float


def periods_of(values: Floats, *, max_periods: int = 2) -> tuple[Period, ...]:
    """Periods in the series, the strongest repeated first; empty for too short or uneven ones."""
    n = len(values)
    if n < 8 * MIN_PERIODS:
        return ()
    logs = np.log(values)
    middle = float(np.median(logs))
    scale = max(1.4826 * float(np.median(np.abs(logs - middle))), SMALL)
    rest = np.clip(logs - middle, -CUT_SCALES * scale, CUT_SCALES * scale)
    if float(np.std(rest)) < SMALL:
        return ()
    found: list[Period] = []
    for _ in range(max_periods):
        correlation = _correlation(rest - rest.mean())
        lag = _strongest(correlation)
        by_time = _in_seconds(values, rest)
        if by_time is not None and by_time.strength > MUCH_STRONGER * _near(correlation, by_time.lag):
            found.append(by_time)
            break
        if lag == 0 or any(lag % period.lag == 0 or period.lag % lag == 0 for period in found):
            break
        found.append(Period(length=float(lag), unit="values", lag=lag, strength=float(correlation[lag])))
        rest = rest - _profile(rest, lag)
    return tuple(found)


def _correlation(rest: Floats) -> Floats:
    """Of values with those a lag later, for lags of up to two of the longest period. (lag,)"""
    n = len(rest)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(rest, size)) ** 2
    products = np.fft.irfft(power, size)[: 2 * (n // MIN_PERIODS) + 3]
    scale = products[0] / n * (n - np.arange(len(products)))
    return np.asarray(np.divide(products, scale, out=np.zeros(len(products)), where=scale > 0))


def _strongest(correlation: Floats) -> int:
    """The first peak about as high as any, 0 without one."""
    longest = (len(correlation) - 3) // 2
    n = longest * MIN_PERIODS
    lags = np.arange(SHORTEST, longest)
    if not len(lags):
        return 0
    low = np.minimum.accumulate(correlation)[lags - 1]
    here = correlation[lags]
    is_peak = (here >= correlation[lags - 1]) & (here >= correlation[lags + 1])
    least = np.maximum(MIN_CORRELATION, MIN_ERRORS / np.sqrt(n - lags))
    peaks = [
        int(lag)
        for lag in lags[is_peak & (here >= least) & (here - low >= MIN_PROMINENCE)]
        if _comes_again(correlation, int(lag))
    ]
    # Of a period between two lags each has a part: alone it would lie below a multiple that falls on one.
    about = {lag: float(correlation[lag - 1 : lag + 2].sum()) for lag in peaks}
    top = max(about.values(), default=0.0)
    return next((lag for lag in peaks if about[lag] >= ABOUT * top), 0)


def _near(correlation: Floats, lag: int) -> float:
    """Correlation about a lag, over steps as over time one more or less is the same."""
    off = 1 + lag // 20
    return float(correlation[max(lag - off, 1) : lag + off + 1].max(initial=0.0))


def _comes_again(correlation: Floats, lag: int) -> bool:
    """Whether values two periods apart are alike as well: wandering noise makes a peak, but not the next."""
    rise = _near(correlation, 2 * lag) - float(correlation[lag : 2 * lag].min())
    return rise >= AGAIN_SHARE * float(correlation[lag] - correlation[:lag].min())


def _profile(rest: Floats, lag: int) -> Floats:
    """The mean course of one period, repeated."""
    phase = np.arange(len(rest)) % lag
    mean = np.bincount(phase, weights=rest, minlength=lag) / np.bincount(phase, minlength=lag)
    return np.asarray(mean[phase])


def _in_seconds(values: Floats, rest: Floats) -> Period | None:
    """The period over time, on a grid as fine as a usual step; None without one."""
    usual = float(np.median(values))
    # Every step counts once, where it begins, and a huge one takes no more than MAX_STRETCH.
    counted = np.minimum(values, MAX_STRETCH * usual)
    begins = np.cumsum(counted) - counted
    over_time = np.bincount((begins / usual).astype(np.int64), weights=rest)
    correlation = _correlation(over_time - over_time.mean())
    cells = _strongest(correlation)
    if cells == 0:
        return None
    lag = max(round(cells * usual / float(counted.mean())), SHORTEST)
    longer = float(np.median(_spans(values, lag) / _spans(counted, lag)))
    return Period(length=cells * usual * longer, unit="s", lag=lag, strength=float(correlation[cells]))


def _spans(values: Floats, num: int) -> Floats:
    """How long every `num` values on end take."""
    total = np.append(0.0, np.cumsum(values))
    return np.asarray(total[num:] - total[:-num])


MAX_STRETCH = 4.0
"""Steps longer than this many usual ones count as such."""


def repeats(values: Floats, place: int, *, lag: int, similar: float) -> bool:
    """Whether the value at `place` is one of a row: one and two periods before it was `similar` times as high; NaN is no
    value."""
    if place < 2 * lag:
        return False
    about = [values[max(place - k * lag - 1, 0) : place - k * lag + 2] for k in (1, 2)]
    return all(np.fmax.reduce(some) >= similar * values[place] for some in about)
