"""Rows and string tables of many ranks' summaries, laid end to end so that a column is read in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from argus.collectors.records.events import Rows
from argus.collectors.records.summary import RankWindow

Ints = NDArray[np.int64]


def end_to_end(tables: Sequence[Rows]) -> tuple[Rows, Ints]:
    """Tables of one dtype as one table, and which of them each row is from.

    Joined as bytes: to join structured rows, numpy compares their fields for every table.
    """
    dtype = tables[0].dtype
    raw = [np.ascontiguousarray(table).view(np.uint8) for table in tables if len(table)]
    part_of = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return np.concatenate([np.empty(0, np.uint8), *raw]).view(dtype), part_of


PIECE_ROWS = 4096
"""Rows that are turned into columns at a time: so many stay in a core's cache, for every column reads all of them."""


def in_columns(
    tables: Sequence[Rows], types: Mapping[str, DTypeLike]
) -> tuple[dict[str, NDArray[Any]], Ints]:
    """Fields of tables of one dtype, end to end, as one array each of the type asked for; and each row's table.

    >>> one = np.array([(1, 2.0), (3, 4.0)], [("a", "u1"), ("b", "f4")])
    >>> columns, part_of = in_columns([one, one[:1]], {"a": np.int64})
    >>> columns["a"].tolist(), part_of.tolist()
    ([1, 3, 1], [0, 0, 1])
    """
    sizes = np.array([len(table) for table in tables])
    columns = {name: np.empty(int(sizes.sum()), dtype) for name, dtype in types.items()}
    piece_of = np.cumsum(sizes) // PIECE_ROWS
    cuts = [0, *(np.flatnonzero(np.diff(piece_of)) + 1).tolist(), len(tables)]
    at = 0
    for first, last in pairwise(cuts):
        rows, _ = end_to_end(tables[first:last])
        for name, column in columns.items():
            column[at : at + len(rows)] = rows[name]
        at += len(rows)
    return columns, np.repeat(np.arange(len(tables)), sizes)


class Texts:
    """Every string of every summary; numbers beyond a summary's own table mean "?", as in `RankWindow.name`."""

    def __init__(self, parts: Sequence[RankWindow]) -> None:
        self.size = np.array([len(part.names) for part in parts], np.int64)
        self.start = np.cumsum(self.size) - self.size
        self.texts = [*(name for part in parts for name in part.names), "?"]
        self.owners = [*np.repeat([part.rank for part in parts], self.size).tolist(), -1]

    def of(self, part_of: Ints) -> Reader:
        """Reads columns of rows that belong to these summaries. (row,)"""
        return Reader(self, part_of)


class Reader:
    """The string columns of one table."""

    def __init__(self, texts: Texts, part_of: Ints) -> None:
        self.texts, self.owners = texts.texts, texts.owners
        self.start, self.size = texts.start[part_of], texts.size[part_of]

    def codes(self, column: NDArray[np.uint32]) -> tuple[tuple[str, ...], Ints]:
        """Distinct texts of a column, and the number of each row's."""
        slot, used = self._slots(column)
        known: dict[str, int] = {}
        code = np.zeros(len(self.texts), np.int64)
        for at in used:
            code[at] = known.setdefault(self.texts[at], len(known))
        return tuple(known), code[slot]

    def owned(self, column: NDArray[np.uint32]) -> tuple[list[tuple[int, str]], Ints]:
        """Distinct (rank, text) of a column, for texts that mean something else on each rank, and each row's."""
        slot, used = self._slots(column)
        code = np.zeros(len(self.texts), np.int64)
        code[used] = np.arange(len(used))
        return [(self.owners[at], self.texts[at]) for at in used], code[slot]

    def _slots(self, column: NDArray[np.uint32]) -> tuple[Ints, list[int]]:
        """Place of each row's text, and the places in use."""
        slot = self.start + column
        beyond = column >= self.size
        if beyond.any():
            slot[beyond] = len(self.texts) - 1
        is_used = np.zeros(len(self.texts), np.bool_)
        is_used[slot] = True
        return slot, np.flatnonzero(is_used).tolist()
