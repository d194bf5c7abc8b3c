"""How much a series rises at a place, and whether it did so a period away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.window import Floats

SIDE = 20
"""Values on either side whose medians are compared."""

HALF = 0.5
OFF_SHARE = 0.15
"""A change that came a period before or after, give or take this share of it, the same way and by half as much
or more, is the period's."""


def rise_at(values: Floats, place: int, side: int = SIDE) -> float:
    """Median of the next `side` values over that of the last; 1 where there are not so many."""
    before, after = values[max(place - side, 0) : max(place, 0)], values[max(place, 0) : place + side]
    if len(before) < side or len(after) < side:
        return 1.0
    return float(np.median(after) / np.median(before))


def is_of_period(values: Floats, place: int, ratio: float, *, lag: int, ways: Sequence[int]) -> bool:
    """Whether the change by `ratio` at `place` comes a period before (−1) or after (1) as well."""
    off = max(int(OFF_SHARE * lag), 1)
    size = float(np.log(ratio))
    return any(
        float(np.log(rise_at(values, place + way * lag + shift))) * size >= HALF * size**2
        for way in ways
        for shift in range(-off, off + 1)
        if abs(way * lag + shift) >= SIDE
    )
