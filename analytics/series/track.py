"""Series of step times followed value by value, many at once, each in constant memory.

Values come in pieces of any length; what is found does not depend on where they were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from argus.analytics.series.drift import drift_of, may_drift
from argus.analytics.series.event import Event
from argus.analytics.series.level import MIN_EFFECT, Level, Repetition, cut_to, level_of
from argus.analytics.series.ranks import MOST_BEFORE, split_by_ranks
from argus.analytics.series.shift import (
    AGES,
    FULL_BEFORE,
    LEVEL_VALUES,
    Split,
    gate,
    place_again,
    split_of,
    suspicious,
)
from argus.analytics.series.spike import MIN_RATIO, ROLLING, usual_before
from argus.analytics.series.swing import ALTERNATIONS, is_swing
from argus.analytics.window import Bools, Floats, Ints

STARTUP = 10
"""First values of a series, which warm up: compilation, caches, allocator."""

KEEP = LEVEL_VALUES + max(AGES)
"""Values of each series that are kept: the old level and the oldest change looked for."""

BLOCK = 8
"""How often the levels are measured anew."""

REST_BLOCKS = 8
"""Series that stay where they are are measured only every so many blocks."""

STIR = 0.5 * MIN_EFFECT
"""A value so far from its level may belong to a change: an average that is off by 0.75 of MIN_EFFECT holds one."""

FEW = 64
"""So many series are looked at for slow trends in every block, more of them only every REST_BLOCKS."""

SETTLED = 30
"""Values behind a change when it is placed for the last time: more move it no nearer (tests/analytics/test_series.py)."""

MAX_LOOKS = 256
"""Series looked at closely per place, in their order: a bound on time, far above what chance makes."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of `series` at place `start`, `told` at that place, from the level of the values from `since` on; it may be
    placed better yet."""

    series: int
    start: int
    since: int
    told: int
    split: Split


@dataclass(frozen=True, kw_only=True)
class Tracks:
    """What is remembered of series that are watched together: logarithms of their last values (series, KEEP).

    `count` places so far; `begun` and `since` (series,): place of the first value (−1 = none yet) and of the
    first of the present level, `stirred` where a value was last away from it; `swings` the last changes of those that changed.
    """

    logs: Floats
    begun: Ints
    since: Ints
    level: Level
    stirred: Ints
    repetition: Repetition
    count: int = 0
    changes: tuple[Change, ...] = ()
    swings: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    drifted: frozenset[int] = frozenset()

    @staticmethod
    def start(num_series: int, *, keep: int = KEEP) -> Tracks:
        """Of `num_series` nothing has been seen."""
        logs = np.full((num_series, keep), np.nan)
        return Tracks(
            logs=logs,
            begun=np.full(num_series, -1),
            since=np.zeros(num_series, np.int64),
            level=level_of(logs, np.isfinite(logs)),
            stirred=np.full(num_series, -max(AGES)),
            repetition=Repetition.none(num_series),
        )

    @property
    def num_series(self) -> int:
        """How many are watched."""
        return len(self.logs)


def observe(tracks: Tracks, values: Floats) -> tuple[Tracks, tuple[Event, ...]]:
    """More values of every series, (series, place), NaN for what is missing or not to be judged."""
    events: list[Event] = []
    at = 0
    while at < values.shape[1]:
        size = min(BLOCK - tracks.count % BLOCK, values.shape[1] - at)
        tracks, found = _block(tracks, values[:, at : at + size])
        events += found
        at += size
    return tracks, tuple(events)


def regroup(tracks: Tracks, rows: Ints) -> Tracks:
    """The series in another order: `rows` are their old places, −1 for one that is new."""
    empty = Tracks.start(1, keep=tracks.logs.shape[1])
    old = np.where(rows >= 0, rows, tracks.num_series)
    new_of = {int(row): new for new, row in enumerate(rows) if row >= 0}

    def moved(values: Floats | Ints, none: Floats | Ints) -> Any:
        return np.concatenate([values, none])[old]

    return replace(
        tracks,
        **{
            name: moved(getattr(tracks, name), getattr(empty, name))
            for name in ("logs", "begun", "since", "stirred")
        },
        level=Level(**{k: moved(v, getattr(empty.level, k)) for k, v in vars(tracks.level).items()}),
        repetition=Repetition(
            **{k: moved(v, getattr(empty.repetition, k)) for k, v in vars(tracks.repetition).items()}
        ),
        changes=tuple(replace(c, series=new_of[c.series]) for c in tracks.changes if c.series in new_of),
        swings={new_of[row]: swing for row, swing in tracks.swings.items() if row in new_of},
        drifted=frozenset(new_of[row] for row in tracks.drifted if row in new_of),
    )


def finish(tracks: Tracks) -> tuple[Tracks, tuple[Event, ...]]:
    """No more values will come: place the last changes by what there is."""
    tracks, events = _settle(tracks, tracks.changes)
    return tracks, tuple(events)


def _block(tracks: Tracks, values: Floats) -> tuple[Tracks, list[Event]]:
    keep, size = tracks.logs.shape[1], values.shape[1]
    fresh, begun = _usable(tracks, values)
    if tracks.count % BLOCK == 0:
        tracks = _measure_levels(tracks)
    tracks = _stirred(replace(tracks, begun=begun), fresh)
    logs = np.concatenate([tracks.logs, fresh], axis=1)
    base = tracks.count - keep
    tracks, events = _events(tracks, logs, rows=np.flatnonzero(_is_restless(tracks)), base=base, size=size)
    tracks = replace(tracks, logs=logs[:, size:], count=tracks.count + size)
    if tracks.count % BLOCK == 0:
        tracks, late = _block_end(tracks)
        events += late
    return tracks, events


def _stirred(tracks: Tracks, fresh: Floats) -> Tracks:
    """Which series have a value away from their level: without one in its last values no series has changed."""
    off = np.abs(fresh - tracks.level.centre[:, None])
    stirs = (off >= STIR).any(axis=1) & (tracks.level.num > 0)
    return replace(tracks, stirred=np.where(stirs, tracks.count + fresh.shape[1], tracks.stirred))


def _is_restless(tracks: Tracks) -> Bools:
    return np.asarray(tracks.count - tracks.stirred < max(AGES))


def _measure_levels(tracks: Tracks) -> Tracks:
    """The levels of restless and of new series measured anew, of all now and then."""
    every = tracks.count % (REST_BLOCKS * BLOCK) == 0
    is_due = _is_restless(tracks) | (tracks.level.num < FULL_BEFORE) | every
    rows = np.flatnonzero(is_due)
    logs = tracks.logs[rows]
    inside = _inside(logs, tracks.since[rows], tracks.count - logs.shape[1])
    level = level_of(logs, inside, wider=tracks.repetition.inflation[rows])
    return replace(tracks, level=tracks.level.put(rows, level))


def _events(tracks: Tracks, logs: Floats, *, rows: Ints, base: int, size: int) -> tuple[Tracks, list[Event]]:
    """Spikes and changes of the series `rows` in the last `size` columns."""
    events: list[Event] = []
    if not len(rows):
        return tracks, events
    mine, keep = logs[rows], logs.shape[1] - size
    inside = _inside(mine, tracks.since[rows], base)
    scales = gate(tracks.num_series)
    suspects = suspicious(
        mine, inside, tracks.level.at(rows), columns=np.arange(keep, keep + size), min_scales=scales
    )
    may_spike = _may_spike(mine, inside, size)
    for column in range(keep, keep + size):
        if may_spike[column - keep]:
            events += _spikes(mine, inside, rows, base=base, column=column)
        for at in np.flatnonzero(suspects[:, column - keep])[:MAX_LOOKS]:
            row = int(rows[at])
            tracks, found = _look(tracks, mine[at, : column + 1], row=row, base=base, scales=scales)
            if found:
                events += found
                inside[at] = _inside(mine[at : at + 1], tracks.since[row : row + 1], base)[0]
                suspects[at] = False
    return tracks, events


def _usable(tracks: Tracks, values: Floats) -> tuple[Floats, Ints]:
    """Logarithms of the values that count, and where each series began."""
    good = np.isfinite(values) & (values > 0)
    places = tracks.count + np.arange(values.shape[1])
    first = np.where(good.any(axis=1), tracks.count + good.argmax(axis=1), -1)
    begun = np.where(tracks.begun >= 0, tracks.begun, first)
    warm = (begun >= 0)[:, None] & (places[None, :] >= (begun + STARTUP)[:, None])
    return np.log(np.where(good & warm, values, np.nan)), begun


def _inside(logs: Floats, since: Ints, base: int) -> Bools:
    """Which values are there and of the present level."""
    return np.asarray(np.isfinite(logs) & (base + np.arange(logs.shape[1]) >= since[:, None]))


def _may_spike(logs: Floats, inside: Bools, size: int) -> Bools:
    """In which of the last columns some value lies far above the least of those before: most need no look."""
    last = slice(-size - ROLLING, None)
    least = np.where(inside[:, last], logs[:, last], np.inf).min(axis=1, keepdims=True)
    return np.asarray((logs[:, -size:] >= least + np.log(MIN_RATIO)).any(axis=0))


def _spikes(logs: Floats, inside: Bools, rows: Ints, *, base: int, column: int) -> list[Event]:
    here = slice(max(column - ROLLING, 0), column + 1)
    usual = usual_before(np.where(inside[:, here], logs[:, here], np.nan))
    return [
        Event(
            kind="spike",
            series=int(rows[at]),
            start=base + column,
            end=base + column,
            got=float(np.exp(logs[at, column])),
            expected=float(np.exp(usual[at])),
        )
        for at in np.flatnonzero(np.isfinite(usual))
    ]


def _look(tracks: Tracks, logs: Floats, *, row: int, base: int, scales: float) -> tuple[Tracks, list[Event]]:
    """A closer look at one series, `logs` its columns up to now."""
    since = int(tracks.since[row])
    begin = max(since - base, len(logs) - KEEP, 0)
    split = split_of(logs[begin:], tracks.level.at(np.array([row])), min_scales=scales)
    if split is None:
        return tracks, []
    now = base + len(logs) - 1
    change = Change(series=row, start=base + begin + split.place, since=since, told=now, split=split)
    return _changed(tracks, logs, change, base=base)


def _changed(tracks: Tracks, logs: Floats, change: Change, *, base: int) -> tuple[Tracks, list[Event]]:
    """What a change that was found means for its series."""
    row, split = change.series, change.split
    mine = [one for one in tracks.changes if one.series == row]
    # The change before this one gets no more values than these.
    settled = [
        event for one in mine if (event := _placed(one, logs[: change.start - base], base)) is not None
    ]
    swings = (*tracks.swings.get(row, ()), split.after - split.before)[-ALTERNATIONS:]
    events = [*settled, _shift(change)]
    if is_swing(swings):
        events.append(_swing(change))
        swings = ()
    tracks = replace(
        tracks,
        changes=(*(one for one in tracks.changes if one.series != row), change),
        swings={**tracks.swings, row: swings},
        drifted=tracks.drifted - {row},
    )
    return _new_level(tracks, logs, row=row, place=change.start, base=base), events


def _new_level(tracks: Tracks, logs: Floats, *, row: int, place: int, base: int) -> Tracks:
    since = tracks.since.copy()
    since[row] = place
    here = logs[None, :]
    fresh = level_of(
        here, _inside(here, since[row : row + 1], base), wider=tracks.repetition.inflation[row : row + 1]
    )
    return replace(tracks, since=since, level=tracks.level.put(np.array([row]), fresh))


def _placed(change: Change, logs: Floats, base: int) -> Event | None:
    """The change placed and measured anew by all values so far, if that makes it another."""
    begin, told = max(change.since - base, 0), change.split
    split = place_again(logs[begin:], told, told=change.start - base - begin)
    if split is None:
        return None
    start = base + begin + split.place
    grown = abs((split.after - split.before) - (told.after - told.before))
    if start == change.start and grown < MIN_EFFECT:
        return None
    return replace(_shift(replace(change, start=start, split=split)), instead_of=change.start)


def _shift(change: Change) -> Event:
    split = change.split
    return Event(
        kind="shift",
        series=change.series,
        start=change.start,
        end=change.told,
        got=float(np.exp(split.after)),
        expected=float(np.exp(split.before)),
        scales=split.scales,
        error=split.error,
    )


def _swing(change: Change) -> Event:
    low, high = sorted((change.split.before, change.split.after))
    return replace(_shift(change), kind="oscillation", got=float(np.exp(high)), expected=float(np.exp(low)))


def _block_end(tracks: Tracks) -> tuple[Tracks, list[Event]]:
    """What is looked for only now and then: changes that can be placed for good, and slow trends."""
    due = tuple(one for one in tracks.changes if tracks.count - one.start >= SETTLED)
    tracks, events = _settle(tracks, due)
    base = tracks.count - tracks.logs.shape[1]
    inside = _inside(tracks.logs, tracks.since, base)
    last = slice(-BLOCK - 1, None)
    # Without a level all values seem to lie on one side of it, as far from it as anything is believed to be.
    is_near = inside[:, last] & (tracks.level.num > 0)[:, None]
    heard = tracks.repetition.after(cut_to(tracks.logs[:, last], tracks.level), is_near)
    tracks = replace(tracks, repetition=heard)
    if tracks.num_series <= FEW:
        tracks, found = _by_ranks(tracks, base=base)
        events += found
        inside = _inside(tracks.logs, tracks.since, base)
    if tracks.num_series > FEW and tracks.count % (REST_BLOCKS * BLOCK):
        return tracks, events
    for row in may_drift(tracks.logs, inside)[:MAX_LOOKS]:
        if int(row) in tracks.drifted:
            continue
        values = np.where(inside[row], tracks.logs[row], np.nan)
        drift = drift_of(values, spread=float(tracks.level.spread[row]))
        if drift is not None:
            tracks = replace(tracks, drifted=tracks.drifted | {int(row)})
            events.append(
                Event(
                    kind="drift",
                    series=int(row),
                    start=base + drift.begin,
                    end=tracks.count - 1,
                    got=float(np.exp(drift.after)),
                    expected=float(np.exp(drift.before)),
                    scales=drift.scales,
                )
            )
    return tracks, events


def _by_ranks(tracks: Tracks, *, base: int) -> tuple[Tracks, list[Event]]:
    """Changes that the levels' own noise hides, see `ranks`."""
    events: list[Event] = []
    for row in np.flatnonzero(_is_restless(tracks)).tolist():
        logs, since = tracks.logs[row], int(tracks.since[row])
        split = split_by_ranks(logs, since=since - base, min_scales=gate(tracks.num_series))
        if split is not None:
            start = base + split.place
            compared = max(start - MOST_BEFORE, 0)
            change = Change(series=row, start=start, since=compared, told=tracks.count - 1, split=split)
            tracks, found = _changed(tracks, logs, change, base=base)
            events += found
    return tracks, events


def _settle(tracks: Tracks, changes: tuple[Change, ...]) -> tuple[Tracks, list[Event]]:
    """These changes placed for the last time."""
    base = tracks.count - tracks.logs.shape[1]
    events = []
    since = tracks.since.copy()
    for change in changes:
        event = _placed(change, tracks.logs[change.series], base)
        if event is not None:
            events.append(event)
            since[change.series] = event.start
    placed = set(map(id, changes))
    left = tuple(one for one in tracks.changes if id(one) not in placed)
    return replace(tracks, changes=left, since=since), events
