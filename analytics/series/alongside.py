"""The step times of a job's ranks at the same steps, to ask of any place how much each of them rises there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.series.judge import FAR
from argus.analytics.window import Floats, Ints
from argus.collectors.records.series import StepSeries

LEAST = 5
"""Values of a rank on either side of a place before it says anything about it."""


@dataclass(frozen=True, kw_only=True)
class Alongside:
    """Logarithms of each rank's values and the places of these, which all ranks have in common; `apart` from one value to the next."""

    logs: tuple[Floats, ...]
    places: tuple[Ints, ...]
    apart: float

    def rises(self, first: int, last: int) -> Floats:
        """By how much each rank's values from place `first` to `last` lie above those before, NaN where it has too few. (rank,)

        >>> one = StepSeries(name="rank 0", values_s=(1.0,) * 30 + (2.0,) * 30)
        >>> late = StepSeries(name="rank 1", values_s=(3.0,) * 40, first_step=20)
        >>> alongside([one, late]).rises(30, 59).round(2).tolist()
        [0.69, 0.0]
        """
        far = int(FAR * self.apart)
        edges = [first - far, first, min(first + far, last + 1)]
        found = np.full(len(self.logs), np.nan)
        for row, (logs, places) in enumerate(zip(self.logs, self.places, strict=True)):
            begin, middle, end = np.searchsorted(places, edges).tolist()
            sides = [side[np.isfinite(side)] for side in (logs[begin:middle], logs[middle:end])]
            if min(map(len, sides)) >= LEAST:
                found[row] = np.median(sides[1]) - np.median(sides[0])
        return found


def alongside(series: Sequence[StepSeries]) -> Alongside:
    """The ranks by their steps; by the order of their values where steps go back in one, which tell no place then."""
    values = [np.array(one.values_s, np.float64) for one in series]
    steps = [_steps(one) for one in series]
    if any((np.diff(mine) <= 0).any() for mine in steps):
        steps = [np.arange(len(mine)) for mine in values]
    spans = [(mine[-1] - mine[0]) / (len(mine) - 1) for mine in steps if len(mine) > 1]
    return Alongside(
        logs=tuple(np.log(np.where(np.isfinite(mine) & (mine > 0), mine, np.nan)) for mine in values),
        places=tuple(steps),
        apart=float(np.median(spans)) if spans else 1.0,
    )


def _steps(series: StepSeries) -> Ints:
    if series.steps:
        return np.array(series.steps, np.int64)
    return series.first_step + series.interval * np.arange(len(series.values_s))
