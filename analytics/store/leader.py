"""Which of several services on one database does what only one may do: it holds an advisory lock and writes on its session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from argus.analytics.store.engine import Store

LOCK_ID = 0x41524755  # "ARGU"
"""First key of the lock: any number of our own. The second is of the schema, for each project has one."""


_TRY = "SELECT pg_try_advisory_lock(:key, hashtext(current_schema()))"


class NotLeading(Exception):
    """Only the leader may write this."""


class Leadership:
    """Held by one replica at a time. Used by the analysis thread alone.

    PostgreSQL gives a session's advisory lock up when the session ends, however it ends, and everything the
    holder writes goes through that very session: a replica that has lost the lock, by a cut connection or a
    restarted server, cannot write any more, so no other one can begin while it still does. On SQLite there is
    one process per file, and it always leads.
    """

    def __init__(self, store: Store) -> None:
        self._shared = store
        self._is_needed = store.engine.dialect.name == "postgresql"
        self._session: Connection | None = None
        self._turn = threading.RLock()
        self._term = 0
        self.store = replace(store, through=self.write) if self._is_needed else store

    @property
    def is_needed(self) -> bool:
        """Whether there may be others."""
        return self._is_needed

    @property
    def is_held(self) -> bool:
        """Whether this one led when last asked."""
        return not self._is_needed or self._session is not None

    @property
    def term(self) -> int:
        """How often this one became the leader: between two of its terms another one may have led."""
        return self._term

    def hold(self) -> bool:
        """Whether this one leads now: stays, or becomes it if nobody does."""
        if not self._is_needed:
            return True
        if self._session is not None and _is_alive(self._session):
            return True
        self.release()
        session = self._shared.engine.connect()
        with session.begin():
            got = session.execute(text(_TRY), {"key": LOCK_ID}).scalar_one()
        if not got:
            session.close()
            return False
        self._session = session
        self._term += 1
        return True

    def release(self) -> None:
        """Let another one lead."""
        session, self._session = self._session, None
        if session is not None:
            session.invalidate()  # its end gives the lock up; back in the pool it would keep it
            session.close()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction on the session that holds the lock. Raises NotLeading."""
        with self._turn:
            session = self._session
            if (
                session is None or session.invalidated
            ):  # used again, it would be another session, without the lock
                raise NotLeading("another replica may lead")
            with session.begin():
                yield session


def _is_alive(session: Connection) -> bool:
    if session.invalidated:
        return False
    try:
        with session.begin():
            session.execute(text("SELECT 1"))
    except DBAPIError:
        return False
    return True
