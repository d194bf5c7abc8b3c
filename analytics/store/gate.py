"""The door of a database: everybody passes, until it is closed to put another file in its place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError


class Unavailable(SQLAlchemyError):
    """The database takes nothing for now; the message says why. Whoever asks comes back later."""


class Gate:
    """Counts the transactions inside; while it is closed, no other one begins.

    >>> gate = Gate()
    >>> with gate.passing():
    ...     gate.close("being repaired", wait_s=0.0)
    False
    """

    def __init__(self) -> None:
        self._inside = 0
        self._reason = ""
        self._changed = threading.Condition()

    @property
    def reason(self) -> str:
        """Why it is closed, "" while it is open."""
        return self._reason

    @contextmanager
    def passing(self) -> Iterator[None]:
        """One transaction. Raises Unavailable while the door is closed."""
        with self._changed:
            if self._reason:
                raise Unavailable(self._reason)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self, reason: str, *, wait_s: float) -> bool:
        """Let nobody in any more and wait for those inside; False, and open again, if they do not end."""
        with self._changed:
            self._reason = reason
            if self._changed.wait_for(lambda: not self._inside, timeout=wait_s):
                return True
            self._reason = ""
            return False

    def open(self) -> None:
        """Let everybody in again."""
        with self._changed:
            self._reason = ""
