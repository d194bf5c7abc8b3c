"""Errors of a loop in the log: each once for as long as it lasts, not with every turn."""

from __future__ import annotations

import logging
import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from argus.analytics.store.damage import shown


def in_words(error: Exception) -> str:
    """An error as one line; of the database's, what the database said and not our statement.

    >>> in_words(ValueError("no"))
    'ValueError: no'
    """
    return f"{type(error).__name__}: {shown(error.orig if isinstance(error, DBAPIError) else error)}"


def plainly(error: Exception) -> str:
    """An error for who uses the service: its words where they were written for people, else that it is ours.

    >>> plainly(ValueError("no layout")), plainly(KeyError("rank"))
    ('no layout', "an error of Argus itself (KeyError: 'rank')")
    """
    said = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, SQLAlchemyError | ValueError | OSError) and str(said).strip():
        return shown(said)
    return f"an error of Argus itself ({in_words(error)})"


def no_answer(error: SQLAlchemyError) -> str:
    """That the database does not answer, and where to look; of a server not its words, which name addresses."""
    if isinstance(error, DBAPIError) and isinstance(error.orig, sqlite3.Error):
        why, look = (
            shown(error.orig),
            "see the service's disk and that the database's file is there and whole",
        )
    else:
        why, look = (
            type(error).__name__,
            "see that it runs and can be reached from the service, whose log says more",
        )
    return f"the database does not answer: {why}; {look}; what hosts send, they keep till then"


class Complaints:
    """What one loop has to complain of."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._last = log, ""

    def about(self, what: str, error: Exception) -> None:
        """Say that `what` failed, if the last turn did not fail with the same."""
        told = f"{what}: {in_words(error)}"
        if told != self._last:
            # Where in the code the disk was full, or the database away, says nothing.
            trace = None if isinstance(error, SQLAlchemyError) else error
            self._log.error("%s", told, exc_info=trace)
        self._last = told

    def over(self) -> None:
        """A turn went well."""
        if self._last:
            self._log.info("over: %s", self._last)
        self._last = ""
