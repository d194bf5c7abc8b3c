"""The bounded ring between the training thread and the writer thread."""

from __future__ import annotations

import threading
from collections import deque

from argus.collectors.records.events import DTYPES, Rows

Row = tuple[int | float, ...]
"""One record in the column order of its dtype."""

CAPACITY = 8192
"""Rows per kind; the writer looks twice a second whether it fills, so this carries 16,000 records/s of each kind."""

BLOCK_CAPACITY = 1 << 18
"""Rows of one kind in blocks: 14 MB of kernels, some seconds of a rank that launches 50,000 a second."""

MAX_NAMES = 16384  # distinct strings of a rank; beyond that somebody generates names
MAX_NAME = 200  # characters of one name


class Ring:
    """Rows and the string table they index. The newest row is dropped, and counted, when it is full."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        self.rows: dict[str, deque[Row]] = {kind: deque() for kind in DTYPES}
        self.names: list[str] = [""]
        self.full_reason = "ring_full"  # the writer says here why rows stay in the ring
        self._blocks: dict[str, deque[Rows]] = {kind: deque() for kind in DTYPES}
        self._index: dict[str, int] = {"": 0}
        self._capacity = capacity
        self._dropped: dict[str, int] = {}
        self._late: deque[tuple[str, int]] = deque()
        self._is_counting = False
        # A garbage collection or a signal handler may come to us on a thread that is in here already.
        self._lock = threading.RLock()

    @property
    def is_filling(self) -> bool:
        """Whether rows of some kind, single or in blocks, take half of their room."""
        if any(2 * len(rows) >= self._capacity for rows in self.rows.values()):
            return True
        return any(2 * sum(map(len, list(blocks))) >= BLOCK_CAPACITY for blocks in self._blocks.values())

    def put(self, kind: str, row: Row) -> None:
        """Append a row of `kind` (a key of `DTYPES`); never blocks."""
        rows = self.rows[kind]
        if len(rows) >= self._capacity:
            self.drop(self.full_reason, 1)
        else:
            rows.append(row)

    def put_block(self, kind: str, rows: Rows) -> None:
        """Append many rows at once, of the dtype of `kind`; all or nothing."""
        blocks = self._blocks[kind]
        if sum(map(len, list(blocks))) + len(rows) > BLOCK_CAPACITY:
            self.drop(self.full_reason, len(rows))
        elif len(rows):
            blocks.append(rows)

    def take_block(self, kind: str) -> Rows | None:
        """Remove and return the oldest block of `kind`, None if there is none."""
        blocks = self._blocks[kind]
        return blocks.popleft() if blocks else None

    def take(self, kind: str) -> list[Row]:
        """Remove and return the rows of `kind` that are there now."""
        rows = self.rows[kind]
        return [rows.popleft() for _ in range(len(rows))]

    def intern(self, text: str) -> int:
        """Index of `text` in the string table."""
        index = self._index.get(text)
        return self._new_name(text) if index is None else index

    def _new_name(self, text: str) -> int:
        short = text[:MAX_NAME]
        with self._lock:
            index = self._index.get(short)
            if index is None:
                if len(self.names) >= MAX_NAMES:
                    self.drop("names_full", 1)
                    return 0
                self.names.append(short)
                index = len(self.names) - 1
                while self.names[index] != short:  # a collection in between has named its own
                    index -= 1
                self._index[short] = index
            return index

    def drop(self, reason: str, count: int) -> None:
        """Count `count` records lost for `reason`."""
        self._late.append((reason, count))
        self._count()

    def dropped(self) -> dict[str, int]:
        """Records lost by reason since the start."""
        self._count()
        return self._dropped.copy()

    def renew_lock(self) -> None:
        """In a forked child: the thread that held the lock is not there to let go of it."""
        self._lock = threading.RLock()
        self._is_counting = False

    def _count(self) -> None:
        """Add up what is late; a call from inside leaves its own to the one that it interrupted."""
        with self._lock:
            if self._is_counting:
                return
            self._is_counting = True
            try:
                for _ in range(len(self._late)):
                    reason, count = self._late.popleft()
                    self._dropped[reason] = self._dropped.get(reason, 0) + count
            finally:
                self._is_counting = False
