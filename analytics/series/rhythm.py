"""What repeats in one series, learned as it comes, and which events it therefore explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argus.analytics.series.event import Event
from argus.analytics.series.period import Period, periods_of, repeats
from argus.analytics.series.pulse import IN_STEPS, Pulse, is_due, pulse_period, pulses_after
from argus.analytics.series.rise import OFF_SHARE, is_of_period
from argus.analytics.window import Floats

HISTORY = 512
"""Values kept to learn periods from: three periods of up to 170 values. Rarer slow steps are pulses."""

LEARN_EVERY = 64
"""How often periods are looked for."""

SIMILAR = 0.8
"""A slow step is one of a row if those a period and two before it were so high."""

MAX_PERIODS = 4
MAX_QUIET = 8
"""Periods, and changes that were not told, that are remembered."""

LONGER = 2
"""A trend must last so many periods: each tooth of a saw rises."""


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """`history` holds the last values, NaN where there was none; `quiet` the places of the last changes that a period
    explained. One value stands for `steps_per_value` steps."""

    count: int = 0
    elapsed_s: float = 0.0
    history: Floats = field(default_factory=lambda: np.empty(0))
    pulses: tuple[Pulse, ...] = ()
    periods: tuple[Period, ...] = ()
    quiet: tuple[int, ...] = ()
    steps_per_value: int = 1


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
            rhythm, told = _hear_shift(rhythm, event, history, base=first + len(values) - len(history))
            kept += told
        elif all(event.end - event.start > LONGER * period.lag for period in rhythm.periods):
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
    found = pulse_period(rhythm.pulses, steps_per_value=rhythm.steps_per_value)
    if found is None or _is_known(found, rhythm.periods):
        return rhythm, [event]
    rhythm = replace(rhythm, periods=(found, *rhythm.periods)[:MAX_PERIODS])
    first = rhythm.pulses[-IN_STEPS].place
    periodic = Event(
        kind="periodic", start=first, end=pulse.place, got=event.got, expected=event.expected, period=found
    )
    return rhythm, [event, periodic]


def _hear_shift(rhythm: Rhythm, event: Event, history: Floats, *, base: int) -> tuple[Rhythm, list[Event]]:
    """`base` is the place of the first value of the history."""
    if event.instead_of is not None or event.kind == "oscillation":
        known = event.start if event.instead_of is None else event.instead_of
        return rhythm, [] if known in rhythm.quiet else [event]
    whole = _filled(history)
    if not any(
        is_of_period(whole, event.start - base, event.ratio, lag=period.lag, ways=(-1,))
        for period in rhythm.periods
    ):
        return rhythm, [event]
    return replace(rhythm, quiet=(*rhythm.quiet, event.start)[-MAX_QUIET:]), []


def _learn(rhythm: Rhythm) -> tuple[Rhythm, list[Event]]:
    """Periods of the history; a new one is an event once."""
    begun = int(np.argmax(np.isfinite(rhythm.history))) if len(rhythm.history) else 0
    whole = _filled(rhythm.history[begun:])
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
    """The history with the usual value where one is missing; empty without any."""
    good = np.isfinite(history)
    return np.where(good, history, np.median(history[good])) if good.any() else np.empty(0)


def _is_known(period: Period, periods: Sequence[Period]) -> bool:
    return any(abs(period.lag - known.lag) <= OFF_SHARE * known.lag for known in periods)
