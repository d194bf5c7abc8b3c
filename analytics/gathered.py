"""Rows and string tables of many ranks' summaries, laid end to end so that a column is read in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
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

    Fields whose name ends in `_ns` come as seconds if floats are asked for.

    >>> one = np.array([(1, 2.0), (3, 4.0)], [("a", "u1"), ("b", "f4")])
    >>> columns, part_of = in_columns([one, one[:1]], {"a": np.int64})
    >>> columns["a"].tolist(), part_of.tolist()
    ([1, 3, 1], [0, 0, 1])
    """
    sizes = np.array([len(table) for table in tables])
    num, ends = int(sizes.sum()), np.cumsum(sizes)
    columns = {name: np.empty(num, dtype) for name, dtype in types.items()}
    cuts = [0, *(np.flatnonzero(np.diff(ends // PIECE_ROWS)) + 1).tolist(), len(tables)]
    for first, last in pairwise(cuts):
        rows, _ = end_to_end(tables[first:last])
        at = slice(int(ends[last - 1]) - len(rows), int(ends[last - 1]))
        for name, column in columns.items():
            column[at] = rows[name]
            if name.endswith("_ns") and column.dtype.kind == "f":
                column[at] *= 1e-9
    return columns, np.repeat(np.arange(len(tables)), sizes)


Told = tuple[tuple[tuple[str, ...], ...], Ints, Ints]
"""Different string tables of some summaries, which of them each has, and whose summary it is. (table,), (part,), (part,)"""


def told(parts: Sequence[RankWindow]) -> Told:
    """The string tables: those of a job's ranks are mostly the same few."""
    known: dict[tuple[str, ...], int] = {}
    which = np.array([known.setdefault(part.names, len(known)) for part in parts], np.int64)
    return tuple(known), which, np.array([part.rank for part in parts], np.int64)


class Texts:
    """Every string of every summary; numbers beyond a summary's own table mean "?", as in `RankWindow.name`.

    Millions of rows name a few thousand strings: each is numbered once, and rows are only ever looked up.
    """

    def __init__(self, tables: tuple[tuple[str, ...], ...], which: Ints, ranks: Ints) -> None:
        sizes = np.array([len(table) for table in tables], np.int64)
        self.ranks, self.size, self.start = ranks, sizes[which], (np.cumsum(sizes) - sizes)[which]
        texts = [*chain.from_iterable(tables), "?"]
        known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        self.distinct = tuple(known)
        self.number = np.fromiter(map(known.__getitem__, texts), np.int64, len(texts))

    def of(self, part_of: Ints) -> Reader:
        """Reads columns of rows that belong to these summaries. (row,)"""
        return Reader(self, part_of)


class Reader:
    """The string columns of one table."""

    def __init__(self, texts: Texts, part_of: Ints) -> None:
        self.texts, self.part_of = texts, part_of

    def codes(self, column: NDArray[np.uint32]) -> tuple[tuple[str, ...], Ints]:
        """Distinct texts of a column, and the number of each row's."""
        texts = self.texts
        slot, used = self._slots(column, texts.start, num=len(texts.number) - 1)
        numbers, first = np.unique(texts.number[used], return_index=True)
        numbers = numbers[np.argsort(first)]
        code = np.zeros(len(texts.distinct), np.int64)
        code[numbers] = np.arange(len(numbers))
        return tuple(texts.distinct[number] for number in numbers.tolist()), code[texts.number][slot]

    def owned(self, column: NDArray[np.uint32]) -> tuple[list[tuple[int, str]], Ints]:
        """Distinct (rank, text) of a column, for texts that mean something else on each rank, and each row's."""
        texts = self.texts
        start, num = np.cumsum(texts.size) - texts.size, int(texts.size.sum())
        slot, used = self._slots(column, start, num=num)
        code = np.zeros(num + 1, np.int64)
        code[used] = np.arange(len(used))
        part = np.searchsorted(start, used, side="right") - 1
        is_known = used < num
        owner = np.where(is_known, texts.ranks[part], -1)
        number = texts.number[np.where(is_known, texts.start[part] + used - start[part], -1)]
        named = (texts.distinct[n] for n in number.tolist())
        return list(zip(owner.tolist(), named, strict=True)), code[slot]

    def _slots(self, column: NDArray[np.uint32], start: Ints, *, num: int) -> tuple[Ints, Ints]:
        """Place of each row's text where each summary's begin at `start` (part,), `num` for those beyond its table; and the
        places in use."""
        slot, size = start[self.part_of] + column, self.texts.size
        if int(column.max(initial=0)) >= int(size.min()):
            slot[column >= size[self.part_of]] = num
        is_used = np.zeros(num + 1, np.bool_)
        is_used[slot] = True
        return slot, np.flatnonzero(is_used)
