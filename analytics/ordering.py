"""Orders and numbers of large integer keys, by sorting values instead of places."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_BITS = 62
"""Bits of a packed key: a signed 64-bit integer keeps one as reserve."""

_DENSE = 8
"""Keys below so many times their number are counted off in a table instead of sorted."""


def stable_order(key: Ints) -> Ints:
    """Places of `key` (row,), all ≥ 0, in ascending order; equal keys keep theirs.

    Key and place share one integer where they fit: sorting values is several times faster than sorting places.

    >>> stable_order(np.array([2, 0, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    if not len(key):
        return np.empty(0, np.int64)
    if (key[1:] >= key[:-1]).all():
        return np.arange(len(key), dtype=np.int64)
    bits = (len(key) - 1).bit_length()
    if int(key.max()).bit_length() + bits > _BITS:
        return np.argsort(key, kind="stable").astype(np.int64)
    both = (key << bits) | np.arange(len(key), dtype=np.int64)
    both.sort()
    return np.asarray(both & ((1 << bits) - 1), np.int64)


def packed(*columns: Ints) -> Ints:
    """One key ≥ 0 per row that orders like the columns, the first one first. Columns (row,) of integers.

    >>> packed(np.array([5, 5, 4]), np.array([-1, 0, 7])).tolist()
    [9, 10, 8]
    """
    if not len(columns[0]):
        return np.empty(0, np.int64)
    low = int(columns[0].min())
    key, span = np.asarray(columns[0] - low, np.int64), int(columns[0].max()) - low + 1
    if span >= 1 << _BITS:
        key, span = numbered(key)
    for column in columns[1:]:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if span * width >= 1 << _BITS:
            key, span = numbered(key)
        if span * width >= 1 << _BITS:
            part, width = numbered(column.astype(np.int64) - low)
            key = key * width + part
        else:
            key *= width
            key += column
            key -= low
        span *= width
    return key


def numbered(key: Ints) -> tuple[Ints, int]:
    """Each row's number among the distinct keys in ascending order, and how many there are.

    >>> numbered(np.array([7, 3, 7]))[0].tolist()
    [1, 0, 1]
    """
    if not len(key):
        return np.empty(0, np.int64), 0
    if int(key.min()) >= 0 and int(key.max()) < _DENSE * len(key):
        seen = np.zeros(int(key.max()) + 1, np.bool_)
        seen[key] = True
        keys = np.flatnonzero(seen)
        place = np.empty(len(seen), np.int64)  # a place no key has is never written, and so costs no memory
        place[keys] = np.arange(len(keys))
        return place[key], len(keys)
    order = stable_order(key)
    ordered = key[order]
    new = np.ones(len(key), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    number = np.empty(len(key), np.int64)
    number[order] = np.cumsum(new) - 1
    return number, int(new.sum())
