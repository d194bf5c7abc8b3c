"""Whether one step time lies far above those before it (argus-paper.md §9 row 15)."""

from __future__ import annotations

import numpy as np

from argus.analytics.window import Bools, Floats

MIN_RATIO = 1.5
"""The paper's gate for a step against the rolling median."""

MIN_SCALES = 6.0
"""Robust scales above the median: beyond the heavy tail of a healthy series."""

ROLLING = 20
"""Values before it that a spike is measured against."""

MIN_BEFORE = 10


def usual_before(logs: Floats) -> Floats:
    """Of each series the logarithm of what was usual before its last value if that is a spike, else NaN.

    `logs` (series, place) holds the last ROLLING + 1 places, NaN = missing or of an older level. (series,)
    """
    usual = np.full(len(logs), np.nan)
    rows = np.flatnonzero(_is_high(logs))
    if not len(rows):
        return usual
    before = np.exp(logs[rows, :-1])
    value = np.exp(logs[rows, -1])
    enough = np.isfinite(before).sum(axis=1) >= MIN_BEFORE
    rows, before, value = rows[enough], before[enough], value[enough]
    if not len(rows):
        return usual
    middle = _median(before)
    scale = 1.4826 * _median(np.abs(before - middle[:, None]))
    is_spike = (value >= MIN_RATIO * middle) & (value - middle >= MIN_SCALES * scale)
    usual[rows[is_spike]] = np.log(middle[is_spike])
    return usual


def _median(values: Floats) -> Floats:
    """Of each row that has a value, NaN left out; numpy's own takes fifteen times as long on short rows. (row,)

    >>> _median(np.array([[3.0, np.nan, 1.0], [4.0, 1.0, 2.0]])).tolist()
    [2.0, 2.0]
    """
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))
    num = (~np.isnan(values)).sum(axis=1)
    return np.asarray((ordered[rows, (num - 1) // 2] + ordered[rows, num // 2]) / 2)


def _is_high(logs: Floats) -> Bools:
    """No median lies below the least value: most values need no closer look."""
    least = np.fmin.reduce(logs[:, :-1], axis=1, initial=np.inf)
    return np.asarray(logs[:, -1] >= least + np.log(MIN_RATIO))
