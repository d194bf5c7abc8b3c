"""Whether a stretch of step times holds a lasting change of level.

The split of the stretch with the largest least-squares gain (argus-paper.md §9 row 16), on logarithms, so that
a change counts by its ratio; accepted against the noise of both sides, whose repetition is taken into account,
and only where a step explains the stretch better than a straight line does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from argus.analytics.robust import split_gain
from argus.analytics.window import Floats

MIN_EFFECT = math.log(1.028)
"""0.6 of the smallest change to be found, 5 %: the estimate of a 5 % change scatters below it."""

MIN_SCALES = 4.2
"""Standard errors, with FULL_AFTER values behind the change: recall 0.99 for 5 % in 3 % noise."""

GROSS_SCALES = 8.0
"""Standard errors that need not wait for so many values."""

FULL_AFTER = 10
MIN_SIDE = 5
"""Values behind a change as it is placed: for any, and for a gross one. A change with 20 behind it may be
placed ten values late."""

UNSETTLED = 0.4
"""A gross change is a level only if its few values lie together, by this share of the change."""

FULL_BEFORE = 20
"""Values of the old level before it is one."""

NOISE_FLOOR = 1e-3
"""Relative noise that is believed at least: values are rounded and clocks tick."""

REACH = 2
SPIKE_SCALES = 6.0
"""A value further than this from the middle of its REACH neighbours on either side is none of the level."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A change of level: `place` is the first value after it; levels are medians, `scales` standard errors."""

    place: int
    before: float
    after: float
    scales: float

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.after / self.before


def best_split(values: Floats) -> Split | None:
    """The lasting change in positive step times, None if there is none to be sure of."""
    if len(values) < FULL_BEFORE + MIN_SIDE:
        return None
    logs = without_spikes(np.log(values))
    found = split_gain(logs, margin=MIN_SIDE)
    if found is None or abs(found[2] - found[1]) < MIN_EFFECT:
        return None
    place, left, right = found
    if place < FULL_BEFORE:
        return None
    scales = abs(right - left) / standard_error(logs, place)
    is_settled = len(logs) - place >= FULL_AFTER
    if scales < (MIN_SCALES if is_settled else GROSS_SCALES) or not _is_step(logs, place):
        return None
    if not is_settled:
        if float(np.std(logs[place:])) > UNSETTLED * abs(right - left):
            return None
        place = _first_behind(logs, place, left, right)
    else:
        place = _between_levels(logs, place)
    before, after = float(np.exp(np.median(logs[:place]))), float(np.exp(np.median(logs[place:])))
    return Split(place=place, before=before, after=after, scales=scales)


def without_spikes(logs: Floats) -> Floats:
    """The series with values far from the middle of their neighbourhood put onto it (Hampel's filter)."""
    padded = np.pad(logs, REACH, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * REACH + 1), axis=1)
    off = np.abs(logs - middle)
    scale = max(1.4826 * float(np.median(off)), NOISE_FLOOR)
    return np.asarray(np.where(off > SPIKE_SCALES * scale, middle, logs))


def standard_error(series: Floats, place: int) -> float:
    """Of the difference of both sides' means; noise that repeats itself counts for fewer samples."""
    rest = np.concatenate([side - np.median(side) for side in (series[:place], series[place:])])
    power = float((rest**2).mean())
    repeats = float((rest[1:] * rest[:-1]).mean()) / power if power > 0 else 0.0
    # The estimate has an error of its own; only repetition beyond it is believed.
    repeats = min(max(repeats - 2 / math.sqrt(len(rest)), 0.0), 0.95)
    inflation = (1 + repeats) / (1 - repeats)
    sizes = 1 / place + 1 / (len(series) - place)
    return max(math.sqrt(power * sizes * inflation), NOISE_FLOOR * math.sqrt(sizes))


def _between_levels(logs: Floats, place: int, *, rounds: int = 3) -> int:
    """The likeliest place of a change between the two levels as they are known from both sides of `place`.

    The split of largest gain pays for its levels with its place; levels once known place it better.
    """
    for _ in range(rounds):
        left, right = float(logs[:place].mean()), float(logs[place:].mean())
        beyond = (logs - 0.5 * (left + right)) * (1 if right > left else -1)
        gain = np.cumsum(beyond[::-1])[::-1]
        moved = FULL_BEFORE + int(np.argmax(gain[FULL_BEFORE : len(logs) - MIN_SIDE + 1]))
        if moved == place:
            break
        place = moved
    return place


def _first_behind(logs: Floats, place: int, left: float, right: float) -> int:
    """The first value from `place` on that is nearer to the new level: few values leave the split no choice."""
    while place < len(logs) - 1 and abs(logs[place] - left) < abs(logs[place] - right):
        place += 1
    return place


def _is_step(logs: Floats, place: int) -> bool:
    """Whether two levels leave less unexplained than one straight line."""
    x = np.arange(len(logs)) - (len(logs) - 1) / 2
    y = logs - logs.mean()
    line = float(((y - x * float((x * y).sum() / (x * x).sum())) ** 2).sum())
    step = float(((logs[:place] - logs[:place].mean()) ** 2).sum())
    step += float(((logs[place:] - logs[place:].mean()) ** 2).sum())
    return step <= line
