"""Open the SQLite export of an Nsight Systems report without trusting it, and take columns out of its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from argus.collectors.readers import ReaderError

MAX_VM_STEPS = 50_000_000_000
_STEPS_A_LOOK = 1_000_000
"""Work of one query: fifty for each of a billion rows; a table made to never end is stopped."""

MAX_VERSION = 9

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading damaged pages raises; the second where the message about them holds their bytes."""

Row = Sequence[object]


@dataclass(kw_only=True)
class Tables:
    """The tables of one export; `columns` maps a table to the names of its columns."""

    name: str
    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]] = field(default_factory=dict)
    damage: str = ""

    def newest(self, table: str) -> str:
        """The table's own name: later exports may write `NVTX_EVENTS_V2` for `NVTX_EVENTS`."""
        if table in self.columns:
            return table
        suffixed = (f"{table}_V{version}" for version in range(MAX_VERSION, 1, -1))
        return next((name for name in suffixed if name in self.columns), table)

    def has(self, table: str, *wanted: str) -> bool:
        """Whether the table is there with all these columns."""
        return table in self.columns and set(wanted) <= self.columns[table]

    def first_of(self, table: str, *names: str) -> str | None:
        """The first of the columns that the table has: they change between versions."""
        return next((name for name in names if name in self.columns.get(table, ())), None)

    def rows(self, query: str) -> Iterator[Row]:
        """Rows of a query over tables that `has` answered for; damage ends them and is kept."""
        budget = [MAX_VM_STEPS // _STEPS_A_LOOK]

        def look() -> int:
            budget[0] -= 1
            return budget[0] < 0

        self.connection.set_progress_handler(look, _STEPS_A_LOOK)
        try:
            yield from self.connection.execute(query)
        except UNREADABLE as error:
            self.damage = str(error)[:120]
        finally:
            self.connection.set_progress_handler(None, 0)


def open_tables(path: Path) -> closing[sqlite3.Connection]:
    """The file, read only: no journal is replayed, nothing is written. Raises ReaderError."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise ReaderError(f"{path.name} cannot be opened as SQLite ({str(error)[:120]})") from None
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return closing(connection)


def tables_of(connection: sqlite3.Connection, *, name: str) -> Tables:
    """What the file holds: plain tables only, for a view or a virtual table may run what its maker wanted.

    Raises ReaderError.
    """
    tables = Tables(name=name, connection=connection)
    try:
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}")
        master = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        for table, sql in master:
            if (
                str(sql).lstrip().upper().startswith("CREATE TABLE")
                and str(table).replace("_", "a").isalnum()
            ):
                found = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
                tables.columns[str(table)] = frozenset(str(row[1]) for row in found)
    except UNREADABLE as error:
        raise ReaderError(f"{name} is a damaged SQLite file ({str(error)[:120]})") from None
    return tables
