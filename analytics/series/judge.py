"""Which events of a series are worth an incident: steps that got longer and stayed so, and bursts of long ones.

A single spike, a fall, a slow drift and what repeats are told, and are no incident by themselves; nor are blocks of slow
steps that come at equal distances, where all ranks of a job have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.series.blocks import distances
from argus.analytics.series.event import Event
from argus.analytics.series.level import CUT
from argus.analytics.series.period import Period
from argus.analytics.series.rise import HALF, SIDE, is_of_period, rise_at
from argus.analytics.series.track import STARTUP
from argus.analytics.special import betainc
from argus.analytics.window import Floats

MIN_RISE = 1.05
"""Median of the values after against the median of those before."""

NEAR = 10
"""Values on either side within which a rise has come; a ramp takes longer."""

NEAR_SHARE = 0.6
BURST_SPIKES, BURST_VALUES = 5, 20
"""So many spikes within so many values are one event, unless values as long are as frequent around it."""

BURST_CHANCE, BURST_AROUND = 0.01, 200
"""How many such bursts the values around it, so many on either side, may be expected to make by chance."""

FAR = 60
"""Values on either side that say how sure a rise is."""

MIN_SCALES = 6.0
"""Standard errors of a rise that is worth an incident, see docs/series.md for the families of noise behind it."""

LIKE = 0.2
"""A value is as long as a burst's if it lacks no more than this share of their median."""

END_VALUES = 5
"""Values of which most must be back before a rise is over: in quiet series, more where noise is as large as it."""

END_ERRORS = 8.0
"""Noise errs by half a rise in the median of (8 errors / rise)² values once in a thousand."""


@dataclass(frozen=True, kw_only=True)
class Slowdown:
    """Values `start` to `end` (None: to the last) took `ratio` times as long; `is_burst` = single ones of them.

    `every` = values from one to the next where several alike come at equal distances: on all ranks that is the job's own.
    """

    start: int
    end: int | None
    got: float
    expected: float
    is_burst: bool
    every: float | None = None

    @property
    def ratio(self) -> float:
        """Got over expected."""
        return self.got / self.expected


def slowdowns(values: Floats, events: Sequence[Event], periods: Sequence[Period]) -> tuple[Slowdown, ...]:
    """What of one series took longer, in order; the spikes of a rise are part of it."""
    rises = [rise for event in events if (rise := _rise(values, event, periods)) is not None]
    apart = [one for one in events if one.kind == "spike" and not any(_covers(r, one.start) for r in rises)]
    dense = _bursts(apart)
    bursts = [burst for burst in dense if not _is_chance(values, burst, [*rises, *dense])]
    found = sorted([*rises, *bursts], key=lambda slow: slow.start)
    last = len(values) - 1
    known = distances(
        [(one.start, last if one.end is None else one.end, one.got - one.expected) for one in found]
    )
    return tuple(replace(one, every=known.get(at, one.every)) for at, one in enumerate(found))


def lone_slowdowns(
    values: Floats, events: Sequence[Event], periods: Sequence[Period]
) -> tuple[Slowdown, ...]:
    """Those worth an incident where nobody is there to compare with: without what comes at equal distances."""
    return tuple(one for one in slowdowns(values, events, periods) if one.every is None)


def _covers(rise: Slowdown, place: int) -> bool:
    return rise.start - NEAR <= place and (rise.end is None or place <= rise.end)


def _rise(values: Floats, event: Event, periods: Sequence[Period]) -> Slowdown | None:
    start = event.start
    if event.kind != "shift" or event.ratio <= 1 or not STARTUP + SIDE <= start <= len(values) - SIDE:
        return None
    ratio = rise_at(values, start)
    near = rise_at(values, start, NEAR)
    if ratio < MIN_RISE or near - 1 < NEAR_SHARE * (ratio - 1):
        return None
    before = float(np.median(values[start - SIDE : start]))
    after = float(np.median(values[start : start + SIDE]))
    assert event.error is not None, event
    end = _end(values, start, (before, after), error=event.error)
    if _scales(values, start, end, error=event.error) < MIN_SCALES:
        return None
    lags = (period.lag for period in periods)
    every = next((lag for lag in lags if is_of_period(values, start, ratio, lag=lag, ways=(-1, 1))), None)
    return Slowdown(start=start, end=end, got=after, expected=before, is_burst=False, every=every)


def _scales(values: Floats, start: int, end: int | None, *, error: float) -> float:
    """Standard errors of the rise by all its values near its begin, which are more than when it was first seen."""
    stop = start + FAR if end is None else min(end + 1, start + FAR)
    before, after = np.log(values[max(start - FAR, 0) : start]), np.log(values[start:stop])
    rise = _middle(after, error) - _middle(before, error)
    return rise / (error * float(np.sqrt(1 / len(before) + 1 / len(after))))


def _middle(logs: Floats, error: float) -> float:
    """Mean with the tails cut."""
    median = float(np.median(logs))
    return median + float(np.clip(logs - median, -CUT * error, CUT * error).mean())


def _end(values: Floats, start: int, levels: tuple[float, float], *, error: float) -> int | None:
    """The last value before most of the next few lie below the middle of both levels, None to the last.

    So many as noise alone does not bring below it.
    """
    rise = float(np.log(levels[1] / levels[0]))
    num = min(max(int(np.ceil((END_ERRORS * error / rise) ** 2)), END_VALUES), SIDE)
    rest = values[start:]
    if len(rest) < num:
        return None
    middle = float(np.sqrt(levels[0] * levels[1]))
    ahead = np.median(np.lib.stride_tricks.sliding_window_view(rest, num), axis=1)
    low = np.flatnonzero((ahead < middle) & (rest[: len(ahead)] < middle))
    low = low[low >= END_VALUES]
    return start + int(low[0]) - 1 if len(low) else None


def _bursts(spikes: Sequence[Event]) -> list[Slowdown]:
    found: list[Slowdown] = []
    at = 0
    while at + BURST_SPIKES <= len(spikes):
        last = at + BURST_SPIKES - 1
        if spikes[last].start - spikes[at].start >= BURST_VALUES:
            at += 1
            continue
        while last + 1 < len(spikes) and spikes[last + 1].start - spikes[last].start < BURST_VALUES:
            last += 1
        mine = spikes[at : last + 1]
        got, expected = (float(np.median([getattr(e, name) for e in mine])) for name in ("got", "expected"))
        found.append(
            Slowdown(start=mine[0].start, end=mine[-1].start, got=got, expected=expected, is_burst=True)
        )
        at = last + 1
    return found


def _is_chance(values: Floats, burst: Slowdown, told: Sequence[Slowdown]) -> bool:
    """Whether values as long are so frequent around the burst that its own fall together by chance.

    A job whose batches differ in length has a tenth of its steps twice as long as most: five of them within twenty
    values are expected every few hundred. Values in what is `told` say nothing of what is usual without it.
    """
    assert burst.end is not None, burst
    first, stop = burst.start, burst.end + 1
    low, high = max(first - BURST_AROUND, STARTUP), min(stop + BURST_AROUND, len(values))
    around = [
        at for at in (*range(low, first), *range(stop, high)) if not any(_covers(one, at) for one in told)
    ]
    is_long = values >= (1 - LIKE) * burst.got
    num_around, num, length = int(is_long[around].sum()), int(is_long[first:stop].sum()), stop - first
    share = (num_around + HALF) / (len(around) + 1)
    tail = float(betainc(np.asarray(num - 1.0), np.asarray(length - num + 1.0), share))
    return len(around) * share * tail > BURST_CHANCE
