"""Whether an SQLite file is damaged: what an error says of it, and what a look at the file says."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.exc import DatabaseError, DBAPIError

LOOK_S = 5.0
"""How long a file is looked through: one of gigabytes is not read whole before the service may begin."""

OPS_BETWEEN_LOOKS = 10_000
"""Steps of SQLite's machine between two looks at the clock: milliseconds."""

MAX_SHOWN = 200

TABLES = {"attempts", "windows", "alembic_version"}
"""Some that every database of ours has."""

MAGIC = b"SQLite format 3\0"
OURS = b"CREATE TABLE alembic_version"
OURS_WITHIN = 16 << 20
"""Our schema's text lies in the first pages of every file of ours; one whose header is damaged shows it still."""

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a damaged file may raise: SQLite quotes its schema in messages, and no text may be left of that."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SIGNS = ("no such table", "Could not decode to UTF-8")
"""A table of ours is gone, as the file was cut or another lies in its place; what we wrote as text is none."""


def is_damage(error: Exception) -> bool:
    """Whether the database says that what lies on its disk cannot be read, as opposed to busy, full or away."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _DAMAGED
    return type(error) is DatabaseError


def is_suspicious(error: DBAPIError | UnicodeDecodeError) -> bool:
    """The same of an SQLite file, or what only a damaged one leads to."""
    if isinstance(error, UnicodeDecodeError):
        return True
    is_sqlite = isinstance(error.orig, sqlite3.Error)
    return is_sqlite and (is_damage(error) or str(error.orig).startswith(_SIGNS))


def shown(said: object) -> str:
    """What was said as one line to print: a message may quote the damaged file."""
    line = " ".join(str(said).split())[:MAX_SHOWN]
    return "".join(mark if mark.isprintable() else "?" for mark in line)


def damage_of(
    path: Path,
    *,
    look_s: float = LOOK_S,
    is_whole: bool = True,
    with_tables: bool = False,
    or_else: str = "",
) -> str:
    """What is wrong with a file, "" if nothing; `or_else` where it is not looked through in `look_s` seconds.

    `is_whole`: every page is looked at, not only the schema's. `with_tables`: ours must be in it. Raises OSError, and
    sqlite3.OperationalError where the file is there and cannot be opened.
    """
    if not path.exists():
        return "the file is gone" if with_tables else ""
    try:
        with closing(read_only(path)) as connection:
            deadline_s = time.monotonic() + look_s
            connection.set_progress_handler(lambda: time.monotonic() > deadline_s, OPS_BETWEEN_LOOKS)
            told = (
                [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")]
                if is_whole
                else ["ok"]
            )
            if told != ["ok"]:
                return shown(" ".join(told))
            return "its tables are gone" if with_tables and not _tables(connection) >= TABLES else ""
    except UNREADABLE as error:
        if isinstance(error, UnicodeDecodeError) or is_damage(error):
            return shown(error)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            return or_else
        raise


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def is_ours(path: Path) -> bool:
    """Whether a damaged file was a database, and no table of somebody's results: that is left alone."""
    with path.open("rb") as file:
        head = file.read(OURS_WITHIN)
    return head.startswith(MAGIC) or OURS in head


def hold_open(path: Path) -> list[sqlite3.Connection]:
    """A connection that keeps those closed before it from being the last one; none where the file is gone."""
    if not path.exists():
        return []
    connection = sqlite3.connect(_url(path), uri=True, isolation_level=None, check_same_thread=False)
    with suppress(*UNREADABLE):  # it is there, and that is all that is wanted of it
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return [connection]


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing in the file, not even by being the last one to close."""
    connection = sqlite3.connect(_url(path), uri=True, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except UNREADABLE:
        connection.close()
        raise
    return connection


def _url(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"
