"""One series of step times followed value by value, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from argus.analytics.series.period import Period, periods_of, repeats
from argus.analytics.series.shift import MIN_EFFECT, Split, best_split
from argus.analytics.series.spike import MIN_RATIO, ROLLING, usual_if_spike
from argus.analytics.window import Floats

STARTUP = 10
"""First values of a series, which warm up: compilation, caches, allocator."""

LEVEL_VALUES = 120
"""Values of the present level that are kept to find its end (argus-paper.md §9 row 16)."""

HISTORY = 512
"""Values kept to learn periods from: three periods of up to 170 values."""

LEARN_EVERY = 64
"""How often periods are looked for."""

SIMILAR = 0.8
DRIFT_VALUES = 60
DRIFT_SCALES = 8.0
"""A trend is told after 60 values, if it is eight standard errors long."""

ALTERNATIONS = 4
"""Changes to and fro before a level oscillates."""

KINDS = ("spike", "shift", "drift", "oscillation", "periodic")


@dataclass(frozen=True, kw_only=True)
class Event:
    """What happened at values `start` to `end` of the series; `got` against `expected` seconds."""

    kind: str
    start: int
    end: int
    got: float
    expected: float
    scales: float | None = None
    period: Period | None = None

    @property
    def ratio(self) -> float:
        """Got over expected."""
        return self.got / self.expected


def _none() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True)
class Track:
    """What is remembered of a series. `count` values were taken in, `level` holds the last of the present
    level, `history` the last of all; `shifts` are the ratios of the last changes."""

    count: int = 0
    level: Floats = field(default_factory=_none)
    history: Floats = field(default_factory=_none)
    periods: tuple[Period, ...] = ()
    shifts: tuple[float, ...] = ()
    has_drifted: bool = False


def follow(values: Iterable[float], track: Track | None = None) -> tuple[Track, tuple[Event, ...]]:
    """All values taken in one after the other; values that are no step time (≤ 0, not finite) only count."""
    track = track or Track()
    events: list[Event] = []
    for value in values:
        track, found = observe(track, value)
        events += found
    return track, tuple(events)


def observe(track: Track, value: float) -> tuple[Track, tuple[Event, ...]]:
    """One more value."""
    place = track.count
    track = replace(track, count=place + 1)
    if place < STARTUP or not (math.isfinite(value) and value > 0):
        return track, ()
    events: list[Event] = []
    track = replace(track, history=np.append(track.history, value)[-HISTORY:])
    # No median lies below the least value: most values need no closer look.
    is_high = len(track.level) > 0 and value >= MIN_RATIO * float(track.level[-ROLLING:].min())
    usual = usual_if_spike(track.level, value) if is_high else None
    if usual is not None and not _is_expected(track):
        events.append(Event(kind="spike", start=place, end=place, got=value, expected=usual))
    track = replace(track, level=np.append(track.level, value)[-LEVEL_VALUES:])
    track, changed = _look_for_change(track, place)
    track, learned = _learn(track, place)
    return track, (*events, *changed, *learned)


def _is_expected(track: Track) -> bool:
    last = len(track.history) - 1
    return any(repeats(track.history, last, lag=period.lag, similar=SIMILAR) for period in track.periods)


def _look_for_change(track: Track, place: int) -> tuple[Track, tuple[Event, ...]]:
    level = track.level
    recent = float(level[-8:].mean()) / float(level.mean())
    if abs(math.log(recent)) < MIN_EFFECT / 3:
        return track, ()
    split = best_split(level)
    if split is not None:
        return _changed(track, split, place)
    return _drifting(track, place)


def _changed(track: Track, split: Split, place: int) -> tuple[Track, tuple[Event, ...]]:
    start = place + 1 - len(track.level) + split.place
    shift = Event(
        kind="shift", start=start, end=place, got=split.after, expected=split.before, scales=split.scales
    )
    shifts = (*track.shifts, split.ratio)[-ALTERNATIONS:]
    track = replace(track, level=track.level[split.place :], shifts=shifts, has_drifted=False)
    if not _alternates(shifts):
        return track, (shift,)
    swing = Event(
        kind="oscillation",
        start=start,
        end=place,
        got=max(split.after, split.before),
        expected=min(split.after, split.before),
    )
    return replace(track, shifts=()), (shift, swing)


def _alternates(ratios: tuple[float, ...]) -> bool:
    """Up and down by turns and about as far."""
    if len(ratios) < ALTERNATIONS:
        return False
    logs = np.log(ratios)
    turns = bool((np.sign(logs[1:]) == -np.sign(logs[:-1])).all())
    return turns and float(np.abs(logs).max()) <= 2 * float(np.abs(logs).min())


def _drifting(track: Track, place: int) -> tuple[Track, tuple[Event, ...]]:
    if track.has_drifted or len(track.level) < DRIFT_VALUES:
        return track, ()
    logs = np.log(track.level)
    x = np.arange(len(logs)) - (len(logs) - 1) / 2
    slope = float((x * (logs - logs.mean())).sum() / (x * x).sum())
    rest = logs - logs.mean() - slope * x
    scale = 1.4826 * float(np.median(np.abs(rest))) / math.sqrt(float((x * x).sum()))
    change = slope * len(logs)
    if abs(change) < MIN_EFFECT or abs(slope) < DRIFT_SCALES * max(scale, 1e-12):
        return track, ()
    middle = float(np.exp(np.median(logs)))
    drift = Event(
        kind="drift",
        start=place + 1 - len(logs),
        end=place,
        got=middle * math.exp(change / 2),
        expected=middle * math.exp(-change / 2),
        scales=abs(slope) / max(scale, 1e-12),
    )
    return replace(track, has_drifted=True), (drift,)


def _learn(track: Track, place: int) -> tuple[Track, tuple[Event, ...]]:
    """Periods looked for now and then; a new one is an event once."""
    if place % LEARN_EVERY != LEARN_EVERY - 1:
        return track, ()
    found = periods_of(track.history)
    known = {period.lag for period in track.periods}
    fresh = [period for period in found if not any(abs(period.lag - lag) <= 0.15 * lag for lag in known)]
    kept = [p for p in track.periods if not any(abs(p.lag - f.lag) <= 0.15 * f.lag for f in found)]
    events = []
    for period in fresh:
        crest, usual = np.quantile(track.history, 0.95), np.median(track.history)
        events.append(
            Event(
                kind="periodic",
                start=place + 1 - len(track.history),
                end=place,
                got=float(crest),
                expected=float(usual),
                period=period,
            )
        )
    return replace(track, periods=(*found, *kept)[:MAX_PERIODS]), tuple(events)


MAX_PERIODS = 4
"""Periods remembered, the newest first."""
