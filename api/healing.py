"""A damaged SQLite file set aside, and a fresh one with what could be saved put in its place."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store.damage import damage_of, is_ours, shown
from argus.analytics.store.engine import Store, open_store
from argus.analytics.store.salvage import Salvaged, revision_of, salvage
from argus.api.migrate import HEAD, upgrade

LOG = logging.getLogger("argus.store")

LOOK_BYTES = 1 << 30
"""Of a larger file only the schema is read at the start: one of twenty gigabytes would take minutes, and a read that
meets damage later finds it all the same."""

MAX_ASIDE = 5
"""Files set aside beside a database: a disk that damages a sixth one needs somebody to look at it."""

LOOK_S = 20.0
"""How long a file is looked through while the service runs, before the error that it gave is believed."""

WAIT_S = 20.0
"""How long transactions may take to end."""

SIDES = (".json", "-wal", "-shm")
"""What lies beside a file that was set aside."""

RETRY_S = 30.0
TOLD_S = 3600.0
"""How long /readyz tells of a repair: long enough for the alert on a degraded service to reach somebody."""

REPAIRING = "the database is damaged and is being repaired"


class CannotHeal(Exception):
    """The file stays where it is; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A file that was replaced; `aside` is where it lies."""

    reason: str
    aside: Path
    salvaged: Salvaged
    at_s: float

    def __str__(self) -> str:
        return f"the database was damaged ({self.reason}) and replaced: {self.salvaged}; the old one is {self.aside}"


def replace_damaged(path: Path, *, reason: str, now_s: float) -> Repair:
    """Put a fresh database in the place of one that nobody has open. Raises CannotHeal.

    A crash on the way leaves the damaged file in its place, to be begun again.
    """
    names = [one.name for one in path.parent.iterdir() if one.name.startswith(f"{path.name}.damaged-")]
    others = [name for name in names if not name.endswith(SIDES)]
    if len(others) >= MAX_ASIDE:
        raise CannotHeal(
            f"{reason}; {len(others)} damaged files lie beside {path} already: look at the disk, move them away, start again"
        )
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    try:
        salvaged = _fresh(path)
        repair = Repair(reason=reason, aside=_free(aside), salvaged=salvaged, at_s=now_s)
        report = {"reason": reason, "at_s": now_s, **salvaged.to_json()}
        Path(f"{repair.aside}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        _swap(path, repair.aside)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise CannotHeal(f"{reason}; no fresh file could be made: {shown(error)}") from None
    return repair


def _free(aside: Path) -> Path:
    """The name, with a number where two were damaged in one second."""
    taken = (Path(f"{aside}.{number}") for number in range(1, MAX_ASIDE + 1))
    return next(one for one in (aside, *taken) if not one.exists())


def _side(path: Path, kind: str) -> Path:
    return path.with_name(f"{path.name}-{kind}")


def _fresh_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.fresh")


def _fresh(path: Path) -> Salvaged:
    """Make the fresh file, of the damaged one's schema first, so that its rows fit."""
    fresh = _fresh_path(path)
    for left_over in (fresh, _side(fresh, "wal"), _side(fresh, "shm")):
        left_over.unlink(missing_ok=True)
    _migrate(fresh, revision_of(path) if path.exists() else "")
    salvaged = salvage(path, fresh) if path.exists() else Salvaged()
    _migrate(fresh, HEAD)
    return salvaged


def _migrate(path: Path, revision: str) -> None:
    store = open_store(str(path))
    try:
        upgrade(store, revision=revision or HEAD)
    except CommandError:  # what is left of the damaged file's revision is none of ours
        upgrade(store)
    finally:
        store.close()


def _swap(path: Path, aside: Path) -> None:
    """The damaged file under its new name first, then the fresh one in its place, in one step."""
    if path.exists():
        try:
            os.link(path, aside)
        except OSError:  # a file system without links
            path.rename(aside)
    if _side(path, "wal").exists():
        _side(path, "wal").rename(_side(aside, "wal"))
    _side(path, "shm").unlink(missing_ok=True)
    os.replace(_fresh_path(path), path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def heal_at_start(path: Path, *, now_s: float) -> Repair | None:
    """Look at a file before it is opened, replace it if it is damaged and ours. Raises CannotHeal, OSError."""
    size = path.stat().st_size if path.exists() else 0
    if not size:
        return None
    try:
        reason = damage_of(path, is_whole=size <= LOOK_BYTES)
    except sqlite3.Error as error:
        LOG.info("%s could not be looked through: %s", path, error)
        return None  # opening it says what is wrong
    if not reason:
        return None
    if not is_ours(path):
        raise CannotHeal(f"{path} is damaged or no database of ours ({reason}); it is left alone")
    repair = replace_damaged(path, reason=reason, now_s=now_s)
    LOG.error("%s", repair)
    return repair


class Healer:
    """Of one running service: looks after its database, on the analysis thread."""

    def __init__(
        self, store: Store, *, on_replaced: Callable[[], None] = lambda: None, repair: Repair | None = None
    ) -> None:
        self._store, self._on_replaced = store, on_replaced
        self._repair = repair
        self._failure = self._doubted = ""
        self._next_s = 0.0

    def troubles(self, now_s: float) -> tuple[str, ...]:
        """What /readyz tells of it."""
        if self._failure:
            return (self._failure,)
        if self._repair is not None and abs(now_s - self._repair.at_s) < TOLD_S:
            return (str(self._repair),)
        return ()

    def turn(self, now_s: float) -> bool:
        """Repair the database if it has shown to be damaged; whether another one is in its place now."""
        path, said = self._store.path, self._store.suspicion
        if path is None or not said or 0 < self._next_s - now_s <= RETRY_S:
            return False
        try:
            reason = damage_of(path, look_s=LOOK_S, with_tables=True, or_else=said)
        except (OSError, sqlite3.Error) as error:
            return self._fail(f"the database cannot be looked at: {error}", now_s=now_s)
        if not reason and said != self._doubted:  # a restored file; if it says so again, it is none
            self._store.clear_suspicion()
            self._failure, self._doubted = "", said
            return False
        reason = reason or said
        if not self._store.gate.close(REPAIRING, wait_s=WAIT_S):
            return self._fail(f"{REPAIRING}: transactions do not end", now_s=now_s)
        try:
            self._store.leave_file()
            self._repair = replace_damaged(path, reason=reason, now_s=now_s)
        except CannotHeal as error:
            return self._fail(f"the database is damaged: {error}", now_s=now_s)
        finally:
            self._store.gate.open()
        self._store.clear_suspicion()
        self._failure = self._doubted = ""
        LOG.error("%s", self._repair)
        self._on_replaced()
        return True

    def _fail(self, why: str, *, now_s: float) -> bool:
        if why != self._failure:
            LOG.error("%s", why)
        self._failure, self._next_s = why, now_s + RETRY_S
        return False
