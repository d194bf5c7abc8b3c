"""Rows out of a damaged SQLite file into a fresh one: whatever of each table can still be read, and is sound.

A table is read by row number, which needs no index, from both ends towards the damage; what lies between is tried in
ever smaller stretches. Indices are made anew by the fresh file. Rows of tables whose own root cannot be read are lost.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argus.analytics.store.damage import UNREADABLE, read_only

LIMIT_S = 60.0
"""How long is copied at most: hosts keep their uploads meanwhile, and what was not copied lies in the old file."""

ROWS_AT_ONCE = 500
MAX_PROBES = 2_000
"""Stretches of a table tried between damaged pages: a page that joins thousands of others is not looked behind for ever."""

BULK = ("rank_windows", "kernel_blobs", "capture_parts")
"""Copied last: gigabytes, of which little is still to be analysed."""

DOCUMENTS = ("body", "coverage", "diagnosis", "held", "matchers", "outcome", "action")
"""Columns of text that are JSON."""

REVISION_TABLE = "alembic_version"

_FIRST, _LAST = 0, 1 << 62

_Row = tuple[Any, ...]
_Gap = tuple[int, int]


@dataclass(kw_only=True)
class Salvaged:
    """What became of it: rows copied by table, tables that could not be read whole, tables not come to."""

    rows: dict[str, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """For the report that is kept beside the damaged file."""
        return {"rows": dict(self.rows), "damaged_tables": self.damaged, "tables_left": self.left}

    def __str__(self) -> str:
        told = f"{sum(self.rows.values())} rows were saved"
        told += f"; lost in part: {', '.join(self.damaged)}" if self.damaged else ""
        return told + (f"; not copied whole for lack of time: {', '.join(self.left)}" if self.left else "")


def revision_of(source: Path) -> str:
    """The schema's revision that a damaged file tells, "" if it does not."""
    try:
        connection = read_only(source)
    except UNREADABLE:
        return ""
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""
    except UNREADABLE:
        return ""
    finally:
        connection.close()


def salvage(
    source: Path, target: Path, *, limit_s: float = LIMIT_S, ticks: Callable[[], float] = time.monotonic
) -> Salvaged:
    """Copy what can be read of `source` into `target`, which has the same schema and no rows.

    Raises sqlite3.Error where `target` cannot be written.
    """
    told = Salvaged()
    new = sqlite3.connect(target, isolation_level=None)
    tables = _tables(new)
    try:
        old = read_only(source)
    except UNREADABLE:
        new.close()
        told.damaged = list(tables)
        return told
    old.text_factory = _text
    deadline_s = ticks() + limit_s
    try:
        new.execute("PRAGMA foreign_keys = OFF")
        for table, columns in tables.items():
            _copy(table, columns, old, new, told=told, is_over=lambda: ticks() > deadline_s)
        _drop_orphans(new)
        _count_again(new)
    finally:
        old.close()
        new.close()
    return told


def _tables(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Declared types by column by table, the bulky ones last."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> ?",
        (REVISION_TABLE,),
    )
    names = sorted((str(row[0]) for row in found), key=lambda name: (name in BULK, name))
    return {name: _columns(connection, name) for name in names}


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    return {row[1]: row[2] for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _copy(
    table: str,
    columns: Mapping[str, str],
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    *,
    told: Salvaged,
    is_over: Callable[[], bool],
) -> None:
    try:
        common = columns.keys() & _columns(old, table).keys()
    except UNREADABLE:
        common = set()
    if not common:
        told.damaged.append(table)
        return
    kept = {name: kind for name, kind in columns.items() if name in common}
    names = ", ".join(f'"{name}"' for name in kept)
    # OR IGNORE: a row that breaks a rule of the schema was damaged itself.
    insert = f'INSERT OR IGNORE INTO "{table}" (rowid, {names}) VALUES ({", ".join("?" * (len(kept) + 1))})'
    reading = _Reading(old, f'SELECT rowid, {names} FROM "{table}"', is_over=is_over)
    tests = [_test_of(name, kind) for name, kind in kept.items()]
    before, num_read = new.total_changes, 0
    for rows in _sound(reading, tests):
        num_read += len(rows)
        new.execute("BEGIN")
        new.executemany(insert, rows)
        new.execute("COMMIT")
    told.rows[table] = new.total_changes - before
    if reading.is_damaged or told.rows[table] < num_read:
        told.damaged.append(table)
    if reading.is_cut:
        told.left.append(table)


def _sound(reading: _Reading, tests: list[Callable[[object], bool]]) -> Iterator[list[_Row]]:
    """Rows whose every value can be one of its column, some at a time."""
    rows: list[_Row] = []
    for row in reading.rows():
        if not all(test(value) for test, value in zip(tests, row[1:], strict=True)):
            reading.is_damaged = True
            continue
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield rows
            rows = []
    yield rows


class _Reading:
    """Rows of one table around what is damaged in it."""

    def __init__(self, connection: sqlite3.Connection, select: str, *, is_over: Callable[[], bool]) -> None:
        self._connection, self._select, self._is_over = connection, select, is_over
        self.is_damaged = self.is_cut = False

    def rows(self) -> Iterator[_Row]:
        """The latest first; `is_damaged` and `is_cut` say afterwards whether these are all."""
        waiting, probes = deque([(_FIRST, _LAST)]), 0
        while waiting and not self.is_cut:
            first, last = waiting.popleft()
            probes += 1
            gap = yield from self._between(first, last)
            if gap is None or gap[1] - gap[0] <= 1:
                continue
            if probes + len(waiting) < MAX_PROBES:
                middle = (gap[0] + gap[1]) // 2
                waiting.extend([(middle - 1, gap[1]), (gap[0], middle)])

    def _between(self, first: int, last: int) -> Generator[_Row, None, _Gap | None]:
        """Rows strictly between two numbers, from the end and from the begin; returns the gap that is left."""
        reached = yield from self._one_way(first, last, "DESC")
        if reached is None:
            return None
        start = yield from self._one_way(first, reached, "ASC")
        return None if start is None else (start, reached)

    def _one_way(self, first: int, last: int, order: str) -> Generator[_Row, None, int | None]:
        """Rows in one order; returns the number of the last one read where the reading breaks off, None if it ends."""
        reached = last if order == "DESC" else first
        where = f"WHERE rowid > ? AND rowid < ? ORDER BY rowid {order}"
        try:
            for row in self._connection.execute(f"{self._select} {where}", (first, last)):
                yield row
                reached = row[0]
                if self._is_over():
                    self.is_cut = True
                    return None
        except UNREADABLE:
            self.is_damaged = True
            return reached
        return None


def _text(raw: bytes) -> str | None:
    """Text as it was written, None where it is none any more: no column of ours that must be there takes that."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _test_of(name: str, kind: str) -> Callable[[object], bool]:
    """Whether a value can be one of this column: a damaged page may still look like rows."""
    if kind == "TEXT" and name in DOCUMENTS:
        return lambda value: value is None or _is_document(value)
    wanted: tuple[type, ...] = (str,)
    if kind == "BLOB":
        wanted = (bytes,)
    elif kind == "FLOAT":
        wanted = (float, int)
    elif kind in ("INTEGER", "BIGINT", "BOOLEAN"):
        wanted = (int,)
    return lambda value: value is None or isinstance(value, wanted)


def _is_document(value: object) -> bool:
    try:
        json.loads(value) if isinstance(value, str) else json.loads("")
    except (ValueError, RecursionError):
        return False
    return True


def _drop_orphans(new: sqlite3.Connection) -> None:
    """Rows whose attempt, incident or the like was lost: they would pass for another one's that gets its number."""
    while orphans := new.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, _, _ in orphans:
            new.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,))
    new.execute(
        "DELETE FROM rank_windows WHERE NOT EXISTS (SELECT 1 FROM windows AS w "
        'WHERE w.attempt_id = rank_windows.attempt_id AND w."window" = rank_windows."window")'
    )


def _count_again(new: sqlite3.Connection) -> None:
    """What a window says of its parts, for those it still has."""
    mine = 'FROM rank_windows AS r WHERE r.attempt_id = windows.attempt_id AND r."window" = windows."window"'
    new.execute(f"UPDATE windows SET num_bytes = (SELECT COALESCE(SUM(LENGTH(r.body)), 0) {mine})")
    new.execute(f"UPDATE windows SET ranks_in = (SELECT COUNT(*) {mine}) WHERE status = 'open'")
