"""What repeats in one series, learned as it comes, and which events it therefore explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argus.analytics.series.event import Event
from argus.analytics.series.period import Period, periods_of, repeats
from argus.analytics.series.pulse import Pulse, is_due, pulse_period, pulses_after
from argus.analytics.window import Floats

HISTORY = 512
"""Values kept to learn periods from: three periods of up to 170 values. Rarer slow steps are pulses."""

LEARN_EVERY = 64
"""How often periods are looked for."""

SIMILAR = 0.8
"""A slow step is one of a row if those a period and two before it were so high."""

OFF_SHARE = 0.15
"""A period of steps known by correlation is as exact as this share of it."""

HALF = 0.5
"""A change comes with the period if that of a period ago went the same way at least half as far."""

MAX_PERIODS = 4
MAX_SHIFTS = 8
"""Periods and changes remembered, the newest first and last."""


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """`history` holds the last values, NaN where there was none; `shifts` place and log ratio of the last changes;
    `quiet` the places of those that were explained and not told."""

    count: int = 0
    elapsed_s: float = 0.0
    history: Floats = field(default_factory=lambda: np.empty(0))
    pulses: tuple[Pulse, ...] = ()
    periods: tuple[Period, ...] = ()
    shifts: tuple[tuple[int, float], ...] = ()
    quiet: frozenset[int] = frozenset()


def listen(
    rhythm: Rhythm, values: Floats, took_s: Floats, events: Sequence[Event]
) -> tuple[Rhythm, tuple[Event, ...]]:
    """More values, NaN where one is not to be judged, with the events in them: those that no period explains, and
    new periods. `took_s` is how long each step took, judged or not."""
    first = rhythm.count
    ends_s = rhythm.elapsed_s + np.cumsum(np.nan_to_num(took_s))
    history = np.concatenate([rhythm.history, values])
    kept: list[Event] = []
    for event in events:
        at = event.start - first
        if event.kind == "spike":
            pulse = Pulse(
                place=event.start, end_s=float(ends_s[at]), took_s=float(took_s[at]), usual_s=event.expected
            )
            rhythm, told = _hear_pulse(rhythm, pulse, history[: len(history) - len(values) + at + 1], event)
            kept += told
        elif event.kind in ("shift", "oscillation"):
            rhythm, told = _hear_shift(rhythm, event)
            kept += told
        else:
            kept.append(event)
    rhythm = replace(
        rhythm,
        count=first + len(values),
        elapsed_s=float(ends_s[-1]) if len(ends_s) else rhythm.elapsed_s,
        history=history[-HISTORY:],
    )
    if rhythm.count // LEARN_EVERY == first // LEARN_EVERY:
        return rhythm, tuple(kept)
    rhythm, learned = _learn(rhythm)
    return rhythm, (*kept, *learned)


def _hear_pulse(rhythm: Rhythm, pulse: Pulse, history: Floats, event: Event) -> tuple[Rhythm, list[Event]]:
    is_expected = any(
        is_due(pulse, rhythm.pulses, period)
        or repeats(history, len(history) - 1, lag=period.lag, similar=SIMILAR)
        for period in rhythm.periods
    )
    rhythm = replace(rhythm, pulses=pulses_after(rhythm.pulses, pulse))
    if is_expected:
        return rhythm, []
    found = pulse_period(rhythm.pulses)
    if found is None or _is_known(found, rhythm.periods):
        return rhythm, [event]
    rhythm = replace(rhythm, periods=(found, *rhythm.periods)[:MAX_PERIODS])
    first = rhythm.pulses[-4].place
    periodic = Event(
        kind="periodic", start=first, end=pulse.place, got=event.got, expected=event.expected, period=found
    )
    return rhythm, [event, periodic]


def _hear_shift(rhythm: Rhythm, event: Event) -> tuple[Rhythm, list[Event]]:
    if event.instead_of is not None or event.kind == "oscillation":
        known = event.start if event.instead_of is None else event.instead_of
        return rhythm, [] if known in rhythm.quiet else [event]
    size = float(np.log(event.ratio))
    is_expected = any(
        abs(event.start - place - period.lag) <= max(OFF_SHARE * period.lag, 1.0)
        and before * size >= HALF * size**2
        for period in rhythm.periods
        for place, before in rhythm.shifts
    )
    shifts = (*rhythm.shifts, (event.start, size))[-MAX_SHIFTS:]
    places = {place for place, _ in shifts}
    quiet = frozenset(
        place for place in (*rhythm.quiet, *([event.start] if is_expected else [])) if place in places
    )
    return replace(rhythm, shifts=shifts, quiet=quiet), [] if is_expected else [event]


def _learn(rhythm: Rhythm) -> tuple[Rhythm, list[Event]]:
    """Periods of the history; a new one is an event once."""
    whole = _filled(rhythm.history)
    found = periods_of(whole)
    fresh = [period for period in found if not _is_known(period, rhythm.periods)]
    kept = [period for period in rhythm.periods if not _is_known(period, found)]
    events = [
        Event(
            kind="periodic",
            start=rhythm.count - len(whole),
            end=rhythm.count - 1,
            got=float(np.quantile(whole, 0.95)),
            expected=float(np.median(whole)),
            period=period,
        )
        for period in fresh
    ]
    return replace(rhythm, periods=(*found, *kept)[:MAX_PERIODS]), events


def _filled(history: Floats) -> Floats:
    """The history from its first value on, the usual value where one is missing."""
    good = np.flatnonzero(np.isfinite(history))
    if not len(good):
        return np.empty(0)
    here = history[good[0] :]
    return np.where(np.isfinite(here), here, np.nanmedian(here))


def _is_known(period: Period, periods: Sequence[Period]) -> bool:
    return any(abs(period.lag - known.lag) <= OFF_SHARE * known.lag for known in periods)
