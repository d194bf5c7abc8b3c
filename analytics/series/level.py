"""The level a series is at: its centre, its spread, and how much its noise repeats itself from value to value.

Rows are series, columns are places, entries are logarithms of step times, so that noise and changes count by
their ratio; NaN = no value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Bools, Floats, Ints

MIN_EFFECT = float(np.log(1.028))
"""0.6 of the smallest change that is to be found, 5 %: below it a change is no news."""

CUT = 4.0
"""Values count as at most so many spreads away from their level: one huge step says no more than that."""

NOISE_FLOOR = MIN_EFFECT / CUT
"""Spread that is believed at least: the smallest change worth telling then lies just within the cut, and clocks
that tick (a value in a hundred is usual) are no precision."""

BELIEVED = 3.0
"""Values further out than this, by the robust spread, are pulled in before the spread is taken."""

MAX_REPEATS = 0.95

REMEMBERED = 1000.0
"""Values over which repetition fades: its estimate is wrong by 0.03 then, that of one level of 120 by 0.09."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Of each series: `num` values, their `centre`, `spread` of a value, `error` = spread of an average of n values
    times √n, which is more than the spread where neighbours are alike. (series,)"""

    num: Ints
    centre: Floats
    spread: Floats
    error: Floats

    def at(self, rows: Ints) -> Level:
        """The levels of some series alone."""
        return Level(**{name: values[rows] for name, values in vars(self).items()})

    def put(self, rows: Ints, level: Level) -> Level:
        """The same with the levels of some series in their place."""
        parts = {}
        for name, values in vars(self).items():
            parts[name] = values.copy()
            parts[name][rows] = getattr(level, name)
        return Level(**parts)


def level_of(logs: Floats, inside: Bools, *, wider: Floats | float = 1.0) -> Level:
    """The level of each series from its values `inside`, both (series, place); the floor where there are none.

    `wider` = what repetition makes of the error of an average.
    """
    values = np.where(inside, logs, np.nan)
    counts = np.isfinite(values).sum(axis=1)
    centre = np.nan_to_num(quantile(np.sort(values, axis=1), counts, 0.5))
    rest = values - centre[:, None]
    far = np.sort(np.abs(rest), axis=1)
    # The middle alone is 0 where most values are the same tick of a clock.
    robust = np.maximum(quantile(far, counts, 0.5) * 1.4826, quantile(far, counts, 0.9) / 1.645)
    cut = BELIEVED * np.maximum(np.nan_to_num(robust), NOISE_FLOOR)[:, None]
    rest = np.clip(np.where(np.isnan(rest), 0.0, rest), -cut, cut)
    spread = np.maximum(np.sqrt((rest**2).sum(axis=1) / np.maximum(counts - 1, 1)), NOISE_FLOOR)
    return Level(num=counts, centre=centre, spread=spread, error=spread * wider)


def cut_to(logs: Floats, level: Level) -> Floats:
    """Distances from the centre, none further than CUT spreads; 0 where there is no value."""
    far = CUT * level.spread[:, None]
    rest = logs - level.centre[:, None]
    return np.asarray(np.clip(np.where(np.isnan(rest), 0.0, rest), -far, far))


def quantile(ranked: Floats, counts: Ints, share: float) -> Floats:
    """Linear quantile of the first `counts` values of each sorted row; NaN for an empty row."""
    place = share * np.maximum(counts - 1, 0)
    low = place.astype(np.int64)
    row = np.arange(len(ranked))
    below, above = ranked[row, low], ranked[row, np.minimum(low + 1, np.maximum(counts - 1, 0))]
    return np.asarray(below + (place - low) * (above - below))


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """How much neighbouring values of each series resemble one another, remembered longer than any level:
    sums of squares and of products of neighbours over `num` of the last values, old ones fading. (series,)"""

    num: Floats
    power: Floats
    product: Floats

    @staticmethod
    def none(num_series: int) -> Repetition:
        """Nothing is known."""
        return Repetition(**{name: np.zeros(num_series) for name in ("num", "power", "product")})

    @property
    def inflation(self) -> Floats:
        """See `inflation`."""
        return inflation(self.product, self.power, self.num)

    def after(self, rest: Floats, inside: Bools) -> Repetition:
        """With more distances from the level heard, (series, place); the first column was heard before."""
        rest = np.where(inside, rest, 0.0)
        new, before = rest[:, 1:], rest[:, :-1]
        fade = 1 - new.shape[1] / REMEMBERED
        return Repetition(
            num=fade * self.num + inside[:, 1:].sum(axis=1),
            power=fade * self.power + (new**2).sum(axis=1),
            product=fade * self.product + (new * before).sum(axis=1),
        )


def inflation(product: Floats, power: Floats, num: Floats | Ints) -> Floats:
    """How much wider an average scatters than that of independent values: √((1 + r) / (1 − r)) for neighbours'
    correlation r (Bartlett), of which what is beyond one standard error of chance is believed."""
    repeats = np.where(power > 0, product / np.maximum(power, 1e-300), 0.0)
    repeats = np.clip(repeats - 1.5 / np.sqrt(np.maximum(num, 1)), 0.0, MAX_REPEATS)
    return np.asarray(np.sqrt((1 + repeats) / (1 - repeats)))
