"""Whether a level rises or falls slowly: a straight line through it, long against the noise and worth telling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.series.level import MIN_EFFECT, inflation
from argus.analytics.window import Bools, Floats, Ints

MIN_VALUES = 60
"""Values of a level before a trend in it is one."""

MIN_SCALES = 8.0
"""Standard errors of the slope: noise that wanders makes slopes of half as many."""


FAR = 8.0
"""Values count as at most so many spreads away: a trend spans more of them than noise does, a spike more still."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A level that went from `before` to `after` (logarithms) from column `begin` on."""

    begin: int
    before: float
    after: float
    scales: float


def drift_of(logs: Floats, *, spread: float) -> Drift | None:
    """The trend of one level, `logs` (place,) with NaN for what is none of it; None without one to be sure of."""
    here = np.flatnonzero(np.isfinite(logs))
    if len(here) < MIN_VALUES:
        return None
    x = here - here.mean()
    y = np.clip(logs[here] - np.median(logs[here]), -FAR * spread, FAR * spread)
    slope = float((x * y).sum() / (x * x).sum())
    rest = y - y.mean() - slope * x
    # A trend makes the level itself look wide and repeating: the noise is what is left beside the line.
    wide = max(1.4826 * float(np.median(np.abs(rest))), 0.25 * spread)
    scale = wide * _wider(rest) / float(np.sqrt((x * x).sum()))
    change = slope * float(here[-1] - here[0])
    if abs(change) < MIN_EFFECT or abs(slope) < MIN_SCALES * scale:
        return None
    middle = float(np.median(logs[here]))
    return Drift(
        begin=int(here[0]),
        before=middle - change / 2,
        after=middle + change / 2,
        scales=abs(slope) / scale,
    )


def _wider(rest: Floats) -> float:
    power, product = (rest**2).sum(keepdims=True), (rest[1:] * rest[:-1]).sum(keepdims=True)
    return float(inflation(product, power, np.full(1, len(rest)))[0])


def may_drift(logs: Floats, inside: Bools) -> Ints:
    """Series whose level, by a line through it, changed enough to look closer."""
    x = np.where(inside, np.arange(logs.shape[1]), 0.0)
    num = inside.sum(axis=1)
    x = np.where(inside, x - (x.sum(axis=1) / np.maximum(num, 1))[:, None], 0.0)
    power = (x * x).sum(axis=1)
    slope = (x * np.where(inside, logs, 0.0)).sum(axis=1) / np.maximum(power, 1.0)
    is_long = np.abs(slope) * (x.max(axis=1) - x.min(axis=1)) >= MIN_EFFECT
    return np.flatnonzero((num >= MIN_VALUES) & is_long)
