"""Opening the database: SQLite by path, PostgreSQL by URL."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from argus.analytics.store.damage import hold_open, is_damage, is_suspicious, shown
from argus.analytics.store.gate import Gate, Unavailable

BUSY_TIMEOUT_S = 30.0
"""How long SQLite waits for another process's write lock before it gives up."""

_WRITES = "argus_writes"

_IN_MEMORY = (None, "", ":memory:")
"""What SQLAlchemy takes for the name of a database without a file."""


class StoreError(Exception):
    """The database cannot be opened; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A database; `read` and `write` are transactions, committed when their block ends well.

    `through` gives the transactions to write in, where it may not be any connection. `gate` is closed while
    another file is put in the place of a damaged one.
    """

    engine: Engine
    through: Callable[[], AbstractContextManager[Connection]] | None = field(default=None, repr=False)
    gate: Gate = field(default_factory=Gate, repr=False)
    _turn: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _refused: list[str] = field(default_factory=list, repr=False)
    _suspected: list[str] = field(default_factory=list, repr=False)
    _held: list[sqlite3.Connection] = field(default_factory=list, repr=False)
    _connections: set[sqlite3.Connection] = field(default_factory=set, repr=False)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store. Raises Unavailable while the gate is closed."""
        # PostgreSQL's default shows each statement what was committed before it.
        is_split = self.engine.dialect.name == "postgresql"
        engine = self.engine.execution_options(isolation_level="REPEATABLE READ") if is_split else self.engine
        with self.gate.passing(), self._watched(), engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Open connections keep a damaged file: without them, one that is put in its place is found."""
        try:
            yield
        except UnicodeDecodeError as error:
            self._suspect(error)
            raise Unavailable("the database is damaged: its schema cannot be read") from error
        except DBAPIError as error:
            if is_suspicious(error):
                self._suspect(error.orig)
            elif is_damage(error):
                self.engine.dispose()
            raise

    def _suspect(self, said: object) -> None:
        self._suspected[:] = [shown(said)]
        self._let_go()

    def _let_go(self) -> None:
        """Close every connection, and not as the last one: that one would write a damaged log into the file."""
        if self.path is not None and not self._held:
            self._held.extend(hold_open(self.path))
        self.engine.dispose()

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database; None of any other."""
        url = self.engine.url
        return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None

    @property
    def suspicion(self) -> str:
        """What the database said that only a damaged file says, "" if nothing."""
        return "".join(self._suspected)

    def clear_suspicion(self) -> None:
        """The file was looked at, or another one is in its place."""
        self._suspected.clear()
        self._close_held()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may change the store; on SQLite one at a time."""
        try:
            with self.gate.passing(), self._watched(), self._write() as connection:
                yield connection
        except DBAPIError as error:
            self._refused[:] = [f"{type(error).__name__}: {error.orig}"[:200]]
            raise
        self._refused.clear()

    def wait_for_turn(self) -> None:
        """Return once a write could begin, and write nothing: whether the disk takes one it does not say."""
        with self.gate.passing(), self._watched(), self._write() as connection:
            connection.execute(text("SELECT 1"))

    @property
    def refusal(self) -> str:
        """Why the last write failed, "" if it did not: a full disk takes reads all the same."""
        return "".join(self._refused)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        if self.through is not None or self.engine.dialect.name != "sqlite":
            with (self.through or self.engine.begin)() as connection:
                yield connection
            return
        writing = self.engine.execution_options(**{_WRITES: True})
        with self._turn, writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()
        self._close_held()

    def leave_file(self) -> None:
        """Close every connection while nobody is inside, also those that were in use when a pool was given up."""
        self.engine.dispose()
        for connection in list(self._connections):
            connection.close()
        self._connections.clear()
        self._close_held()

    def _close_held(self) -> None:
        while self._held:
            self._held.pop().close()


def open_store(where: str) -> Store:
    """`where` is a URL, or the path of an SQLite file. Raises StoreError; nothing is connected yet."""
    url = where if "://" in where else f"sqlite:///{where}"
    if url.startswith(("postgres://", "postgresql://")):
        url = "postgresql+psycopg://" + url.split("://", 1)[1]
    try:
        parts = make_url(url)
        backend = parts.get_backend_name()
    except (ArgumentError, ValueError):
        backend = ""
    if backend == "sqlite":
        if parts.database in _IN_MEMORY:
            raise StoreError(
                "an SQLite database in memory is another one for each connection: give the path of a file"
            )
        opened: set[sqlite3.Connection] = set()
        store = Store(engine=_sqlite_engine(url, opened=opened), _connections=opened)
        # A command that reads and ends closes nothing itself; the interpreter warns of such connections since 3.13.
        weakref.finalize(store, store.engine.dispose).atexit = False
        return store
    if backend == "postgresql":
        if "@" in (
            parts.host or ""
        ):  # the driver would look up, and print, the rest of the password as a host
            raise StoreError("the user or password of the database's URL holds an @: write it as %40")
        return Store(engine=create_engine(url, pool_pre_ping=True))
    # What stands before @ may be a password.
    raise StoreError(
        f"{where.split('@')[-1]!r} is not a database of ours; give a path or postgresql://USER@HOST/DATABASE"
    )


def _sqlite_engine(url: str, *, opened: set[sqlite3.Connection]) -> Engine:
    """An engine whose open connections are in `opened`."""
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", lambda connection, _record: opened.add(connection))
    event.listen(engine, "close", lambda connection, _record: opened.discard(connection))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transactions begin too late for a consistent read; we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # FULL: what was acknowledged survives a power cut too, at one fsync per commit.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


Rows = Sequence[Mapping[str, Any]]


def insert_new(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves rows alone whose key is there already."""
    return _insert(connection)(table).on_conflict_do_nothing()


def upsert(connection: Connection, table: Table, *, set_: Sequence[str], where: Any = None) -> Executable:
    """An INSERT that, where the primary key is there already, replaces the columns `set_`."""
    statement = _insert(connection)(table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in set_},
        where=None if where is None else where(statement.excluded),
    )
    return statement  # type: ignore[no-any-return]


def add_up(connection: Connection, table: Table, *, columns: Sequence[str]) -> Executable:
    """An INSERT that, where the primary key is there already, adds its `columns` to those of the row."""
    statement = _insert(connection)(table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: table.c[name] + statement.excluded[name] for name in columns},
    )
    return statement  # type: ignore[no-any-return]


def _insert(connection: Connection) -> Callable[[Table], Any]:
    return sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
