"""One series of step times followed with all that is known of it: its level and its rhythm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argus.analytics.series.event import Event
from argus.analytics.series.rhythm import Rhythm, listen
from argus.analytics.series.track import BLOCK, STARTUP, Tracks, finish, observe
from argus.analytics.window import Floats

KINDS = ("spike", "shift", "drift", "oscillation", "periodic")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What is remembered of one series, in constant memory."""

    tracks: Tracks = field(default_factory=lambda: Tracks.start(1))
    rhythm: Rhythm = field(default_factory=Rhythm)


def follow(
    state: Followed, values: Floats, *, took_s: Floats | None = None
) -> tuple[Followed, tuple[Event, ...]]:
    """More values, NaN for what is missing or not to be judged; `took_s` are all times, judged or not."""
    values = np.asarray(values, np.float64)
    took_s = values if took_s is None else took_s
    took_s = np.where(np.isfinite(took_s) & (took_s > 0), took_s, 0.0)
    events: list[Event] = []
    at = 0
    while at < len(values):
        here = slice(at, min(at + BLOCK - state.tracks.count % BLOCK, len(values)))
        tracks, seen = observe(state.tracks, values[None, here])
        rhythm, found = listen(state.rhythm, _judged(tracks, values[here]), took_s[here], seen)
        state = replace(state, tracks=tracks, rhythm=rhythm)
        events += found
        at = here.stop
    return state, tuple(events)


def _judged(tracks: Tracks, values: Floats) -> Floats:
    """The last values with NaN for what is no step time or still warms up."""
    places = tracks.count - len(values) + np.arange(len(values))
    begun = int(tracks.begun[0])
    return np.where((begun >= 0) & (places >= begun + STARTUP) & (values > 0), values, np.nan)


def read_whole(values: Sequence[float] | Floats, *, interval: int = 1) -> tuple[Followed, tuple[Event, ...]]:
    """A recorded series from its first value to its last; every change once, as it was placed last."""
    whole = np.asarray(values, np.float64)
    begin = Followed(rhythm=Rhythm(steps_per_value=interval))
    state, events = follow(begin, whole, took_s=whole * interval)
    tracks, placed = finish(state.tracks)
    rhythm, last = listen(state.rhythm, np.empty(0), np.empty(0), placed)
    return Followed(tracks=tracks, rhythm=rhythm), settled([*events, *last])


def settled(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events in order of their begin, each change only where it was placed last."""
    kept: list[Event] = []
    for event in events:
        if event.instead_of is not None:
            kept = [
                one
                for one in kept
                if (one.kind, one.series, one.start) != ("shift", event.series, event.instead_of)
            ]
        kept.append(event)
    return tuple(sorted(kept, key=lambda event: event.start))
