"""Whether the last values of a series lie on another level than those before, and where that one began.

A change is looked for over a grid of ages, a window-limited likelihood-ratio test (Lai, 1995), and placed by
the posterior over all places (least-squares gain, argus-paper.md §9 row 16): that place is taken around which
the change lies within NEAR values with the greatest probability, which is what a reader asks for. Rows are
series, columns places, entries logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from argus.analytics.series.level import CUT, MIN_EFFECT, Level, cut_to
from argus.analytics.window import Bools, Floats, Ints

AGES = (5, 7, 10, 14, 20, 28, 40, 60)
"""How many values ago a change may have come, about √2 apart: between two of them at most 3 % of its size is lost."""

LEVEL_VALUES = 120
"""Values of the old level a change is compared with (argus-paper.md §9 row 16)."""

FULL_BEFORE = 20
"""Values of the old level before it is one."""

MIN_AFTER = 5
FULL_AFTER = 10
"""Values of the new level: for a gross change, and for any."""

FALSE_PER_VALUE = 6.3e-5
"""Chance a value may have to look like a change by noise alone. Gives 4.2 standard errors for one series: 5 % in 3 %
noise stand 6.6 above the noise with 20 values behind them, and are missed in less than one of a hundred."""

GROSS_MORE = 1.65
"""How much larger a change must stand out before FULL_AFTER values are behind it: a burst is no level."""

SCREEN_SHARE = 0.75
"""Part of the gate for a closer look: the spread of a level that holds a change already is up to a fifth too wide."""

UNSETTLED = 0.4
"""A gross change is a level only if its few values lie together, by this share of the change."""

MOST_SHARE = 0.4
"""Medians must show this share of what means show, or few large values made it."""

IN_DOUBT = 2.0
"""Twice the logarithm of the likelihood by which a line may fit better: in doubt it is a step."""

NEAR = 3
"""A change is placed well within so many values."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A change of level: `place` is the column of its first value, levels are logarithms, `scales` standard errors.

    `spread` and `error` of the noise as in Level.
    """

    place: int
    before: float
    after: float
    scales: float
    spread: float
    error: float


def gate(num_series: int) -> float:
    """Standard errors a change must have: series that are watched together share the budget of false ones."""
    return -NormalDist().inv_cdf(FALSE_PER_VALUE / 2 / max(num_series, 1))


def suspicious(logs: Floats, inside: Bools, level: Level, *, columns: Ints, min_scales: float) -> Bools:
    """Whether the values up to each of `columns` may hold a change. (series, column)"""
    values = np.where(inside, cut_to(logs, level), 0.0)
    total, count = _sums(values), _sums(inside.astype(np.float64))
    ends = columns[:, None] + 1
    starts = np.maximum(ends - np.array(AGES)[None, :], 0)
    oldest = np.maximum(starts - LEVEL_VALUES, 0)
    new, old = count[:, ends] - count[:, starts], count[:, starts] - count[:, oldest]
    with np.errstate(invalid="ignore", divide="ignore"):
        step = (total[:, ends] - total[:, starts]) / new - (total[:, starts] - total[:, oldest]) / old
        scales = np.abs(step) / np.sqrt(1 / new + 1 / old) / level.error[:, None, None]
    is_large = np.abs(step) >= SCREEN_SHARE * MIN_EFFECT
    is_known = (new >= MIN_AFTER) & (old >= FULL_BEFORE) & (level.num >= FULL_BEFORE)[:, None, None]
    return np.asarray((is_known & is_large & (scales >= SCREEN_SHARE * min_scales)).any(axis=2))


def split_of(logs: Floats, level: Level, *, min_scales: float) -> Split | None:
    """The change in the values of one series, `logs` (place,) with NaN for what is none of its level; None
    without one to be sure of. `level` is of this series alone."""
    here = np.flatnonzero(np.isfinite(logs))
    if len(here) < FULL_BEFORE + MIN_AFTER:
        return None
    raw = logs[here]
    values = cut_to(raw[None, :], level)[0]
    gains = _gains(values)
    best = FULL_BEFORE + int(np.argmax(gains))
    spread = _spread_beside(values, best, least=float(level.spread[0]) * SCREEN_SHARE)
    # The level's noise repeats itself as much after the change as before.
    error = spread * float(level.error[0] / level.spread[0])
    place = _placed(gains, error) + FULL_BEFORE
    scales = float(np.sqrt(gains.max())) / error
    if not _is_change(values, raw, place, spread=spread, scales=scales, min_scales=min_scales):
        return None
    before, after = float(np.median(raw[:place])), float(np.median(raw[place:]))
    return Split(
        place=int(here[place]), before=before, after=after, scales=scales, spread=spread, error=error
    )


def place_again(logs: Floats, split: Split, *, told: int) -> Split | None:
    """A known change, `told` to begin at that column, now that more values are behind it; None if there are too few.

    A small change may be told when a large one has just begun: then both levels are measured again. One that is smaller
    by now may be over, and is what it was.
    """
    here = np.flatnonzero(np.isfinite(logs))
    first = int(np.searchsorted(here, told))
    if len(here) < FULL_BEFORE + MIN_AFTER or not 0 < first < len(here):
        return None
    again = _levels(logs, split, here, first)
    is_larger = abs(again.after - again.before) >= abs(split.after - split.before) + MIN_EFFECT
    known = again if is_larger else split
    middle = (known.before + known.after) / 2
    values = np.clip(logs[here] - middle, -CUT * split.spread, CUT * split.spread)
    place = _placed(_gains(values), split.error) + FULL_BEFORE
    return _levels(logs, split, here, place) if is_larger else replace(split, place=int(here[place]))


def _levels(logs: Floats, split: Split, here: Ints, place: int) -> Split:
    """The change at the `place`-th of the values that are `here`, by the middles of both sides."""
    before, after = (float(np.median(logs[side])) for side in (here[:place], here[place:]))
    return replace(split, place=int(here[place]), before=before, after=after)


def _sums(values: Floats) -> Floats:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _gains(values: Floats) -> Floats:
    """Least-squares gain of a split before each place from FULL_BEFORE on, MIN_AFTER values from the end."""
    n = len(values)
    k = np.arange(FULL_BEFORE, n - MIN_AFTER + 1)
    total = np.cumsum(values)
    left, right = total[k - 1] / k, (total[-1] - total[k - 1]) / (n - k)
    return np.asarray(k * (n - k) / n * (right - left) ** 2)


def _placed(gains: Floats, error: float) -> int:
    """Index of the place around which most of the posterior lies; of equals the nearest to its median."""
    posterior = np.exp((gains - gains.max()) / (2 * error**2))
    posterior /= posterior.sum()
    around = np.convolve(posterior, np.ones(2 * NEAR + 1), mode="same") if len(gains) > NEAR else posterior
    around = around[: len(gains)]
    middle = int(np.searchsorted(np.cumsum(posterior), 0.5))
    good = np.flatnonzero(around >= around.max() * (1 - 1e-3))
    return int(good[np.argmin(np.abs(good - middle))])


def _spread_beside(values: Floats, place: int, *, least: float) -> float:
    """Spread about both sides' own means."""
    rest = ((values[:place] - values[:place].mean()) ** 2).sum()
    rest += ((values[place:] - values[place:].mean()) ** 2).sum()
    return max(float(np.sqrt(rest / max(len(values) - 2, 1))), least)


def _is_change(
    values: Floats, raw: Floats, place: int, *, spread: float, scales: float, min_scales: float
) -> bool:
    step = float(values[place:].mean() - values[:place].mean())
    shown = float(np.median(raw[place:]) - np.median(raw[:place])) * np.sign(step)
    if abs(step) < MIN_EFFECT or shown < MOST_SHARE * abs(step) or not is_step(values, place, spread):
        return False
    if len(values) - place >= FULL_AFTER:
        return scales >= min_scales
    return scales >= GROSS_MORE * min_scales and float(np.std(raw[place:])) <= UNSETTLED * shown


def is_step(values: Floats, place: int, spread: float) -> bool:
    """Whether a straight line is not clearly likelier than two levels."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    y = values - values.mean()
    line = float(((y - x * float((x * y).sum() / (x * x).sum())) ** 2).sum())
    step = float(((values[:place] - values[:place].mean()) ** 2).sum())
    step += float(((values[place:] - values[place:].mean()) ** 2).sum())
    return step <= line + IN_DOUBT * spread**2
