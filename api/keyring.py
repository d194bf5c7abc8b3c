"""Finds who bears a key or a session, remembering the answer for a few seconds."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store import keys as rows
from argus.analytics.store.audit import Deed, add_deed
from argus.analytics.store.engine import Store
from argus.analytics.store.keys import KeyRow, SessionRow
from argus.analytics.store.projects import add_project
from argus.api.keys import (
    BOOTSTRAP,
    Principal,
    Wish,
    bootstrap_principal,
    csrf_of,
    digest,
    is_secret,
    new_key,
    parse_token,
    principal_of,
    proof,
)

LOG = logging.getLogger(__name__)

REMEMBER_S = 5.0
"""How long an answer holds: a key revoked by another process opens nothing any more after so long."""

MAX_REMEMBERED = 10_000
NOTE_USE_S = 300.0
SESSION_S = 12 * 3600.0
"""A working day: the cookie lies in a browser."""

SESSION_BYTES = 32


@dataclass(kw_only=True)
class Keyring:
    """The keys of a service. `bootstrap` is the key of the environment, "" if there is none.

    `is_exposed` says whether other machines can reach the service: then a key is needed in any case.
    """

    store: Store
    bootstrap: str = field(repr=False)
    is_exposed: bool
    clock: Callable[[], float]
    ticks: Callable[[], float] = time.monotonic
    _known: OrderedDict[str, tuple[float, Principal | None]] = field(default_factory=OrderedDict, repr=False)
    _noted: dict[str, float] = field(default_factory=dict, repr=False)
    _asked: tuple[float, bool] = (float("-inf"), False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def needs_key(self) -> bool:
        """Whether nobody may ask without a key: there is one, there ever was one, or others can reach us."""
        if self.bootstrap or self.is_exposed or self._asked[1]:
            return True
        if self.ticks() - self._asked[0] >= REMEMBER_S:
            with self.store.read() as connection:
                self._asked = (self.ticks(), rows.has_keys(connection))
        return self._asked[1]

    def is_ready(self) -> bool:
        """Whether `needs_key` is known without asking the database."""
        is_fresh = self.ticks() - self._asked[0] < REMEMBER_S
        return bool(self.bootstrap) or self.is_exposed or self._asked[1] or is_fresh

    def is_known_open(self) -> bool:
        """Whether no key is needed, for all that can be told: False where the database does not answer."""
        try:
            return not self.needs_key()
        except SQLAlchemyError:
            return False

    def recalled(self, token: str) -> tuple[bool, Principal | None]:
        """(known, who) of a token that was asked for a moment ago."""
        with self._lock:
            until_s, found = self._known.get(digest(token), (float("-inf"), None))
        return self.ticks() < until_s, found

    def bearer(self, token: str) -> Principal | None:
        """Who bears a key; None if it opens nothing."""
        if self._is_bootstrap(token):
            return bootstrap_principal()
        parsed = parse_token(token)
        if parsed is None:
            return None
        with self.store.read() as connection:
            row = rows.key_of(connection, parsed[0])
        found = None
        if row is not None and is_secret(parsed[1], row.digest) and row.is_good(self.clock()):
            found = principal_of(row)
            self._note_use(row)
        self._remember(token, found)
        return found

    def visitor(self, cookie: str) -> Principal | None:
        """Who a browser's session belongs to; None if it is over."""
        with self.store.read() as connection:
            session = rows.session_of(connection, digest(cookie))
            if session is None or session.expires_s <= self.clock():
                return None
            row = rows.key_of(connection, session.key_id) if session.key_id else None
        if row is None:
            is_mine = session.key_id is None and bool(self.bootstrap)
            found = bootstrap_principal() if is_mine and self._proves(session, cookie) else None
        else:
            found = principal_of(row) if row.is_good(self.clock()) else None
        if found is not None:
            found = replace(found, via="session", csrf=csrf_of(cookie))
        self._remember(cookie, found)
        return found

    def log_in(self, token: str) -> tuple[str, Principal] | None:
        """A session for who bears a key: its cookie and who it is; None if the key opens nothing."""
        found = self.bearer(token)
        if found is None:
            return None
        cookie, now_s = secrets.token_urlsafe(SESSION_BYTES), self.clock()
        is_bootstrap = found.key == BOOTSTRAP
        session = SessionRow(
            digest=digest(cookie),
            key_id=None if is_bootstrap else found.key,
            proof=proof(self.bootstrap, cookie) if is_bootstrap else "",
            created_s=now_s,
            expires_s=now_s + SESSION_S,
        )
        with self.store.write() as connection:
            rows.add_session(connection, session)
        return cookie, replace(found, via="session", csrf=csrf_of(cookie))

    def log_out(self, cookie: str) -> None:
        """End a session."""
        with self.store.write() as connection:
            rows.drop_session(connection, digest(cookie))
        self._forget()

    def create(self, wish: Wish, *, by: str) -> tuple[str, KeyRow]:
        """Make a key, and its project if it is new; the token and what is kept. Raises ValueError."""
        now_s = self.clock()
        token, row = new_key(wish, created_by=by, now_s=now_s)
        with self.store.write() as connection:
            add_project(connection, row.project, now_s=now_s)
            rows.add_key(connection, row)
            add_deed(connection, _deed(row, by=by, action="create_key"), now_s=now_s)
        self._forget()
        return token, row

    def revoke(self, key_id: str, *, project: str | None, by: str) -> bool:
        """End a key; False if there is none of the id in the project, in all if none is named."""
        now_s = self.clock()
        with self.store.write() as connection:
            row = rows.key_of(connection, key_id)
            if row is None or not rows.revoke(connection, key_id, project=project, now_s=now_s):
                return False
            add_deed(connection, _deed(row, by=by, action="revoke_key"), now_s=now_s)
        self._forget()
        return True

    def _is_bootstrap(self, token: str) -> bool:
        given = token.encode("utf-8", "replace")
        return bool(self.bootstrap) and hmac.compare_digest(given, self.bootstrap.encode())

    def _proves(self, session: SessionRow, cookie: str) -> bool:
        return hmac.compare_digest(session.proof, proof(self.bootstrap, cookie))

    def _remember(self, token: str, found: Principal | None) -> None:
        with self._lock:
            self._known[digest(token)] = (self.ticks() + REMEMBER_S, found)
            while len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self) -> None:
        with self._lock:
            self._known.clear()
        self._asked = (float("-inf"), self._asked[1])

    def _note_use(self, row: KeyRow) -> None:
        now_s = self.clock()
        if 0 <= now_s - max(row.used_s or 0.0, self._noted.get(row.id, 0.0)) < NOTE_USE_S:
            return
        self._noted[row.id] = now_s
        try:
            with self.store.write() as connection:
                rows.note_use(connection, row.id, now_s=now_s)
        except SQLAlchemyError as error:  # a disk that is full must not lock everybody out
            LOG.warning("when key %s was used could not be noted: %s", row.id, type(error).__name__)


def _deed(row: KeyRow, *, by: str, action: str) -> Deed:
    target = f"{row.id} {row.name} ({', '.join(row.scopes)} in {row.project})"
    return Deed(project=row.project, who=by, action=action, target=target, outcome="done")
