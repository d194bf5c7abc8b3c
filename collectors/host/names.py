"""A rank's own string table, which outlives the connections that feed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.errors import WireError
from argus.collectors.records.events import STRING_COLUMNS, Rows

MAX_NAMES = 32_768
"""Entries of a rank's table: kernels, groups and phases of a job are thousands, a leak has no end."""

MAX_NAME = 1024
"""Characters of one name: template-heavy kernel names reach hundreds."""

OVERFLOW = "(too many names)"
"""What every name beyond `MAX_NAMES` is called."""


class NameTable:
    """Names by number and back; entry 0 is the empty string, the last one takes what does not fit.

    >>> table = NameTable()
    >>> table.intern("forward"), table.intern(""), table.intern("forward")
    (1, 0, 1)
    """

    def __init__(self) -> None:
        self._names = [""]
        self._ids = {"": 0}

    def __len__(self) -> int:
        return len(self._names)

    def intern(self, name: str) -> int:
        """The number of `name`, a new one if it was not seen yet."""
        found = self._ids.get(name)
        if found is not None:
            return found
        if len(self._names) >= MAX_NAMES - 1:
            name = OVERFLOW
            if name in self._ids:
                return self._ids[name]
        self._ids[name] = len(self._names)
        self._names.append(name)
        return self._ids[name]

    def since(self, first: int) -> list[str]:
        """Names from number `first` on."""
        return self._names[first:]

    def all(self) -> tuple[str, ...]:
        """The whole table."""
        return tuple(self._names)


class Translation:
    """One connection's string numbers in terms of the rank's table."""

    def __init__(self, table: NameTable) -> None:
        self._table = table
        self._own = np.zeros(64, np.uint32)
        self._count = 1

    def extend(self, first: object, names: object) -> None:
        """Take a STRINGS frame; numbers may be sent twice but never leave a gap. Raises WireError."""
        if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= self._count:
            raise WireError(f"strings begin at {first!r:.40}, the table has {self._count}")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise WireError("strings.names must be a list of strings")
        if first + len(names) > 8 * MAX_NAMES:
            raise WireError(f"a table of {first + len(names)} strings, the limit is {8 * MAX_NAMES}")
        self._write(first, [self._table.intern(_printable(name)) for name in names])

    def _write(self, first: int, ids: Sequence[int]) -> None:
        end = first + len(ids)
        if end > len(self._own):
            self._own = np.concatenate([self._own, np.zeros(end, np.uint32)])
        self._own[first:end] = ids
        self._own[0] = 0
        self._count = max(self._count, end)

    def known(self, kind: str, rows: Rows) -> NDArray[np.bool_]:
        """Which rows use only numbers that were announced; shape (row,)."""
        mask = np.ones(len(rows), np.bool_)
        for column in STRING_COLUMNS[kind]:
            mask &= rows[column] < self._count
        return mask

    def translate(self, kind: str, rows: Rows) -> Rows:
        """A copy of `rows` with the rank's numbers."""
        rows = rows.copy()
        for column in STRING_COLUMNS[kind]:
            rows[column] = self._own[rows[column]]
        return rows


def _printable(name: str) -> str:
    """`name` cut to length and fit for UTF-8 (JSON may smuggle in lone surrogates)."""
    return name[:MAX_NAME].encode("utf-8", "replace").decode()
