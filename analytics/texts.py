"""The string tables of many ranks' summaries, laid end to end so that a column is read in one go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.summary import RankWindow

Ints = NDArray[np.int64]


class Texts:
    """Every string of every summary; numbers beyond a summary's own table mean "?", as in `RankWindow.name`."""

    def __init__(self, parts: Sequence[RankWindow]) -> None:
        self.size = np.array([len(part.names) for part in parts], np.int64)
        self.start = np.cumsum(self.size) - self.size
        self.texts = [*(name for part in parts for name in part.names), "?"]
        self.owners = [*np.repeat([part.rank for part in parts], self.size).tolist(), -1]

    def codes(self, column: NDArray[np.uint32], part_of: Ints) -> tuple[tuple[str, ...], Ints]:
        """Distinct texts of a column and the number of each row's; `part_of` (row,) says whose table counts."""
        slot, used = self._slots(column, part_of)
        known: dict[str, int] = {}
        code = np.zeros(len(self.texts), np.int64)
        for at in used:
            code[at] = known.setdefault(self.texts[at], len(known))
        return tuple(known), code[slot]

    def owned(self, column: NDArray[np.uint32], part_of: Ints) -> tuple[list[tuple[int, str]], Ints]:
        """Distinct (rank, text) of a column, for texts that mean something else on each rank, and each row's."""
        slot, used = self._slots(column, part_of)
        code = np.zeros(len(self.texts), np.int64)
        code[used] = np.arange(len(used))
        return [(self.owners[at], self.texts[at]) for at in used], code[slot]

    def _slots(self, column: NDArray[np.uint32], part_of: Ints) -> tuple[Ints, list[int]]:
        """Place of each row's text, and the places in use."""
        number = column.astype(np.int64)
        last = len(self.texts) - 1
        slot = np.where(number < self.size[part_of], self.start[part_of] + number, last)
        return slot, np.flatnonzero(np.bincount(slot, minlength=last + 1)).tolist()
