"""Ranks over windows or phases as a small matrix of codes: what stands out stays visible however many ranks share a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from argus.analytics.window import Floats, Ints

MISSING, EQUAL, SPAN = 0, 128, 127
"""Codes: 0 = nobody saw it, 128 = as expected, 1 and 255 = half and twice as much or beyond."""

RANGE_LOG2 = 1.0

SMALL_CLASS = 3
"""Up to so many ranks a median is pulled by the slow one itself: it is told by the others alone."""


def beside_peers(values: Floats, classes: Ints) -> Floats:
    """log2 of each value over the median of its class, (…, rank); NaN where a value or all peers are missing.

    >>> beside_peers(np.array([[1.0, 1.0, 1.0, 2.0]]), np.zeros(4, np.int64)).tolist()
    [[0.0, 0.0, 0.0, 1.0]]
    """
    found = np.full(values.shape, np.nan)
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        mine = values[..., members]
        if len(members) > SMALL_CLASS:
            found[..., members] = _log2(mine, _median(mine)[..., None])
            continue
        for place, rank in enumerate(members):
            others = np.delete(mine, place, axis=-1)
            found[..., rank] = _log2(mine[..., place], _median(others))
    return found


def beside_past(values: Floats) -> Floats:
    """log2 of each value over the median of its rank, (window, rank)."""
    return _log2(values, _median(values.T)[None, :])


def worst_of_rows(logs: Floats, *, ranks_per_row: int) -> Floats:
    """(row, …) from (…, rank): of the ranks of a row the value that deviates most, NaN where none was seen."""
    num_ranks = logs.shape[-1]
    rows = -(-num_ranks // ranks_per_row)
    padded = np.full((*logs.shape[:-1], rows * ranks_per_row), np.nan)
    padded[..., :num_ranks] = logs
    parts = padded.reshape(*logs.shape[:-1], rows, ranks_per_row)
    away = np.where(np.isfinite(parts), np.abs(parts), -1.0)
    picked = np.take_along_axis(parts, away.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    return np.moveaxis(picked, -1, 0)


def codes(logs: Floats) -> NDArray[np.uint8]:
    """Codes of log2 ratios.

    >>> codes(np.array([np.nan, 0.0, 1.0, -5.0])).tolist()
    [0, 128, 255, 1]
    """
    scaled = np.clip(logs / RANGE_LOG2, -1.0, 1.0) * SPAN + EQUAL
    return np.where(np.isfinite(scaled), np.rint(np.nan_to_num(scaled)), MISSING).astype(np.uint8)


def _log2(values: Floats, expected: Floats) -> Floats:
    good = np.isfinite(values) & np.isfinite(expected) & (values > 0) & (expected > 0)
    ratio = np.divide(values, expected, out=np.ones(np.broadcast(values, expected).shape), where=good)
    return np.where(good, np.log2(ratio), np.nan)


def _median(values: Floats) -> Floats:
    """Median along the last axis of what is finite; NaN where nothing is."""
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    if np.isfinite(values).all():
        return np.asarray(np.median(values, axis=-1))
    ordered = np.sort(np.where(np.isfinite(values), values, np.nan), axis=-1)  # NaN goes to the end
    count = np.isfinite(values).sum(axis=-1)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0)[..., None] // 2, axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[-1] - 1)[..., None], axis=-1)[
        ..., 0
    ]
    return np.where(count > 0, (low + high) / 2, np.nan)
