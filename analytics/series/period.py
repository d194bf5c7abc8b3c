"""What repeats in a series of step times, and whether it repeats in steps or in seconds.

Peaks of the autocorrelation of logarithms with their tails cut, so that neither one huge step nor a slow trend
looks like a period; taken once over steps and once over time, whichever repeats the better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats

MIN_PERIODS = 3
"""Repetitions before a period is one."""

MIN_CORRELATION = 0.35
"""Eight standard errors at 512 values of noise."""

MIN_ERRORS = 5.0
"""Standard errors of a correlation: the best of a hundred lags, looked at a hundred times, stays below."""

AGAIN_SHARE = 0.6
"""A true period is as strong over two of it; over time, where it is blurred, a little less."""

MIN_PROMINENCE = 0.25
"""How far a peak rises above the lowest point before it: a slow trend correlates everywhere alike."""

MUCH_STRONGER = 1.25
"""Times in seconds must repeat so much better than steps before they are called the cause."""

CUT_SCALES = 6.0
SMALL = 1e-3
"""Relative variation below this is rounding."""


@dataclass(frozen=True, kw_only=True)
class Period:
    """`length` in `unit`: values of the series ("values") or seconds ("s"); `strength` the correlation."""

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
        lag, strength = _strongest(rest - rest.mean())
        by_time = _in_seconds(values, rest)
        if by_time is not None and by_time.strength > MUCH_STRONGER * strength:
            found.append(by_time)
            break
        if lag == 0 or any(lag % period.lag == 0 or period.lag % lag == 0 for period in found):
            break
        found.append(Period(length=float(lag), unit="values", lag=lag, strength=strength))
        rest = rest - _profile(rest, lag)
    return tuple(found)


def _strongest(rest: Floats) -> tuple[int, float]:
    """Lag and height of the first autocorrelation peak about as high as any, (0, 0.0) without one."""
    n = len(rest)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(rest, size)) ** 2
    correlation = np.fft.irfft(power, size)[: 2 * (n // MIN_PERIODS) + 3]
    if correlation[0] <= 0:
        return 0, 0.0
    correlation = correlation / correlation[0] * n / (n - np.arange(len(correlation)))
    lags = np.arange(2, n // MIN_PERIODS)
    low = np.minimum.accumulate(correlation)[lags - 1]
    here = correlation[lags]
    is_peak = (here >= correlation[lags - 1]) & (here >= correlation[lags + 1])
    least = np.maximum(MIN_CORRELATION, MIN_ERRORS / np.sqrt(n - lags))
    peaks = lags[is_peak & (here >= least) & (here - low >= MIN_PROMINENCE)]
    peaks = peaks[[_comes_again(correlation, int(lag)) for lag in peaks]] if len(peaks) else peaks
    if not len(peaks):
        return 0, 0.0
    top = float(correlation[peaks].max())
    first = int(peaks[correlation[peaks] >= 0.8 * top][0])
    return first, float(correlation[first])


def _comes_again(correlation: Floats, lag: int) -> bool:
    """Whether values two periods apart are alike as well: wandering noise makes a peak, but not the next."""
    off = 1 + lag // 20
    return float(correlation[2 * lag - off : 2 * lag + off + 1].max()) >= AGAIN_SHARE * float(
        correlation[lag]
    )


def _profile(rest: Floats, lag: int) -> Floats:
    """The mean course of one period, repeated."""
    phase = np.arange(len(rest)) % lag
    mean = np.bincount(phase, weights=rest, minlength=lag) / np.bincount(phase, minlength=lag)
    return np.asarray(mean[phase])


def _in_seconds(values: Floats, rest: Floats) -> Period | None:
    """The period over time, on a grid as fine as a usual step; None without one."""
    usual = float(np.median(values))
    # A huge step would stretch the grid for itself alone.
    ends = np.cumsum(np.minimum(values, MAX_STRETCH * usual))
    grid = np.arange(int(ends[-1] / usual)) * usual
    over_time = rest[np.minimum(np.searchsorted(ends, grid, side="right"), len(rest) - 1)]
    lag, strength = _strongest(over_time - over_time.mean())
    return None if lag == 0 else Period(length=lag * usual, unit="s", lag=lag, strength=strength)


MAX_STRETCH = 4.0
"""Steps longer than this many usual ones count as such."""


def repeats(values: Sequence[float] | Floats, place: int, *, lag: int, similar: float) -> bool:
    """Whether the value at `place` is one of a row: one and two periods before it was `similar` times as high."""
    height = similar * values[place]
    earlier = [max(values[max(place - k * lag - 1, 0) : place - k * lag + 2], default=0.0) for k in (1, 2)]
    return place >= 2 * lag and all(value >= height for value in earlier)
