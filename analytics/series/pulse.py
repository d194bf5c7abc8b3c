"""Whether single slow steps come at equal distances, in steps or in seconds.

A period of a thousand steps shows in four of them, long before any correlation could: only the last slow steps
are remembered, not what lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.series.period import Period

KEPT = 12
"""Slow steps that are remembered."""

IN_STEPS = 4
"""So many at the very same distance: three equal gaps come by chance once in (mean gap)² slow steps."""

IN_SECONDS = 6
"""So many on one grid of time, each to within the step it fell into, which leaves chance more room."""

SAMPLED_MORE = 2
"""So many more where only every few steps are told: the distance between values is then off by one."""

LONE = 2
"""Steps apart that two slow steps must be to be two: one cause may reach into the next step."""

SAME_HEIGHT = 2.0
"""Ratio of what slow steps lost, within which they can have one cause."""


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """A slow step: its place, when it ended, how long it took and what was usual."""

    place: int
    end_s: float
    took_s: float
    usual_s: float


def pulses_after(pulses: Sequence[Pulse], pulse: Pulse) -> tuple[Pulse, ...]:
    """The last pulses with one more."""
    if pulses and pulse.place - pulses[-1].place < LONE:
        return tuple(pulses)
    return (*pulses, pulse)[-KEPT:]


def pulse_period(pulses: Sequence[Pulse], *, steps_per_value: int = 1) -> Period | None:
    """The period of the last pulses, None without one. Steps go before seconds: equal steps of equal length are
    both."""
    sampled = steps_per_value > 1
    last = pulses[-(IN_STEPS + SAMPLED_MORE * sampled) :]
    if len(last) == IN_STEPS + SAMPLED_MORE * sampled and _alike(last):
        length, off = _grid([float(pulse.place) for pulse in last])
        if off <= (1.0 if sampled else 0.0) and length >= IN_STEPS * LONE:
            return Period(length=length, unit="values", lag=round(length), strength=1.0)
    last = pulses[-IN_SECONDS:]
    if len(last) < IN_SECONDS or not _alike(last):
        return None
    length, off = _grid([pulse.end_s for pulse in last])
    longest = max(pulse.took_s for pulse in last) * steps_per_value
    lag = round(_grid([float(pulse.place) for pulse in last])[0])
    if length < IN_SECONDS * longest or off > longest:
        return None
    return Period(length=length, unit="s", lag=lag, strength=1.0 - off / length)


def _grid(at: Sequence[float]) -> tuple[float, float]:
    """The distance that best divides the places, and how far the furthest lies from where it should."""
    rank = np.arange(len(at)) - (len(at) - 1) / 2
    places = np.array(at) - np.mean(at)
    length = float((rank * places).sum() / (rank * rank).sum())
    return length, round(float(np.abs(places - length * rank).max()), 6)


def is_due(pulse: Pulse, pulses: Sequence[Pulse], period: Period) -> bool:
    """Whether the period foretold the pulse from one of the last ones."""
    return any(_fits(pulse, before, period) for before in pulses[-3:])


def _fits(pulse: Pulse, before: Pulse, period: Period) -> bool:
    if period.unit == "values":
        gap = float(pulse.place - before.place)
        slack = 0.5 if period.length.is_integer() else 1.5
    else:
        gap, slack = pulse.end_s - before.end_s, pulse.took_s
    num = round(gap / period.length)
    return 1 <= num <= 3 and abs(gap - num * period.length) <= slack


def _alike(pulses: Sequence[Pulse]) -> bool:
    lost = [pulse.took_s - pulse.usual_s for pulse in pulses]
    return max(lost) <= SAME_HEIGHT * min(lost)
