"""What the training thread was doing at a given time, for records that only carry a time."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

KEPT = 8192
"""Entries kept: phases of some tens of steps; kernels are looked up a second or two after their launch."""


class _Log:
    """Rows that one thread appends and one other looks up: each is turned into numbers once."""

    def __init__(self, *, width: int) -> None:
        self._fresh: deque[tuple[int, ...]] = deque(maxlen=KEPT)
        self._table = np.empty((0, width), np.int64)

    def append(self, row: tuple[int, ...]) -> None:
        self._fresh.append(row)

    def array(self) -> Ints:
        """Shape (row, width), in order of the first column."""
        fresh = [self._fresh.popleft() for _ in range(len(self._fresh))]
        if fresh:
            table = np.concatenate([self._table, np.array(fresh, np.int64)])[-KEPT:]
            self._table = table[np.argsort(table[:, 0], kind="stable")]
        return self._table


class Timeline:
    """Which phase of which step was the innermost open one on the training thread.

    >>> line = Timeline()
    >>> line.put(10, step=3, phase=7); line.put(20, step=3, phase=0)
    >>> [part.tolist() for part in line.at(np.array([5, 10, 25]))]
    [[-1, 3, 3], [0, 7, 0]]
    """

    def __init__(self) -> None:
        self._log = _Log(width=3)

    def put(self, at_ns: int, *, step: int, phase: int) -> None:
        """From `at_ns` on `phase` (a string index, 0 = none) of `step` is open."""
        self._log.append((at_ns, step, phase))

    def at(self, times_ns: Ints) -> tuple[Ints, Ints]:
        """Step and phase at each time; step -1 where nothing is known. (time,) each"""
        table = self._log.array()
        row = np.searchsorted(table[:, 0], times_ns, side="right") - 1
        known = row >= 0
        steps, phases = np.full(len(times_ns), -1, np.int64), np.zeros(len(times_ns), np.int64)
        steps[known], phases[known] = table[row[known], 1], table[row[known], 2]
        return steps, phases


class CallSpans:
    """Which communication call was being issued."""

    def __init__(self) -> None:
        self._log = _Log(width=4)

    def put(self, entry_ns: int, *, end_ns: int, group: int, seq: int) -> None:
        """The call was issued from `entry_ns` until it returned at `end_ns`."""
        self._log.append((entry_ns, end_ns, group, seq))

    def at(self, times_ns: Ints) -> tuple[Ints, Ints]:
        """Group (a string index, 0 = none) and number of the call at each time. (time,) each"""
        table = self._log.array()
        row = np.searchsorted(table[:, 0], times_ns, side="right") - 1
        inside = row >= 0
        inside[inside] = times_ns[inside] <= table[row[inside], 1]
        groups, seqs = np.zeros(len(times_ns), np.int64), np.zeros(len(times_ns), np.int64)
        groups[inside], seqs[inside] = table[row[inside], 2], table[row[inside], 3]
        return groups, seqs
