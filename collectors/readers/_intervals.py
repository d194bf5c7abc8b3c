"""Sets of time as sorted, disjoint intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Disjoint intervals [start, end) in order, ns; both arrays have shape (interval,).

    >>> union([0, 2, 9], [3, 5, 10]).length
    6
    """

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """Time covered."""
        return int((self.end - self.start).sum())

    @cached_property
    def _before(self) -> Ints:
        """Time covered before each interval, and in all. (interval + 1,)"""
        return np.concatenate([[0], np.cumsum(self.end - self.start)]).astype(np.int64)

    def until(self, at: Ints) -> Ints:
        """Time covered before each of the moments `at`."""
        if not len(self.start):
            return np.zeros(len(at), np.int64)
        before = self._before
        index = np.searchsorted(self.start, at, side="right")
        inside = np.minimum(at, self.end[index - 1]) - self.start[index - 1]
        return np.where(index > 0, before[index - 1] + inside, 0).astype(np.int64)

    def within(self, start: Ints, end: Ints) -> Ints:
        """Time covered inside each interval [start, end)."""
        covered: Ints = self.until(np.maximum(end, start)) - self.until(start)
        return covered


def union(start: object, end: object) -> Spans:
    """Everything that is in any of the intervals."""
    starts, ends = np.asarray(start, np.int64), np.asarray(end, np.int64)
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order]) if len(order) else ends
    is_new = np.ones(len(starts), np.bool_)
    is_new[1:] = starts[1:] > ends[:-1]
    last = np.roll(is_new, -1)
    if len(last):
        last[-1] = True
    return Spans(start=starts[is_new], end=ends[last])


def both(one: Spans, other: Spans) -> Spans:
    """What is in both."""
    edges = np.unique(np.concatenate([one.start, one.end, other.start, other.end]))
    if len(edges) < 2:
        return union([], [])
    low, high = edges[:-1], edges[1:]
    keep = (one.within(low, high) > 0) & (other.within(low, high) > 0)
    return union(low[keep], high[keep])


def rest(whole: Spans, taken: Spans) -> Spans:
    """What is in `whole` and not in `taken`."""
    edges = np.unique(np.concatenate([whole.start, whole.end, taken.start, taken.end]))
    if len(edges) < 2:
        return union([], [])
    low, high = edges[:-1], edges[1:]
    keep = (whole.within(low, high) > 0) & (taken.within(low, high) == 0)
    return union(low[keep], high[keep])
