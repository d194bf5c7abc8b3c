"""Asking for an investigation: once per key, of something that exists, with a call back where it may go."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from argus.analytics.store import investigations
from argus.analytics.store.engine import Store
from argus.analytics.store.investigations import NO_CALLBACK, WAITING, Investigation
from argus.api.notify.post import is_allowed_host, url_fault
from argus.api.settings import Settings

LEASE_S = 20.0
"""How long an investigation is held without a sign of life of the service that runs it."""

MAX_UNDER_WAY = 100
"""Investigations that wait or run in a project; beyond it the answer is 503."""


class Conflict(ValueError):
    """The request contradicts what is; the message says how."""


class Busy(RuntimeError):
    """No more can be taken on now."""


class BadCallback(ValueError):
    """The URL may not be called back; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody wants investigated: an incident, else a run."""

    run: str
    incident: str | None
    question: str = ""
    by: str = ""
    idempotency: str | None = None
    callback_url: str = ""

    @property
    def digest(self) -> str:
        """Of what was asked: the same key with another request is a mistake."""
        parts = (self.run, self.incident, self.question, self.callback_url)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def check_callback(url: str, settings: Settings) -> None:
    """Raises BadCallback."""
    if fault := url_fault(url):
        raise BadCallback(f"callback_url: {fault}")
    if not settings.callback_secret:
        raise BadCallback("callback_url: set ARGUS_CALLBACK_SECRET, the key that calls back are signed with")
    if not is_allowed_host(url, settings.callback_hosts):
        raise BadCallback("callback_url: its host is not among the setting callback_hosts")


def enter(store: Store, asked: Asked, *, owner: str, now_s: float) -> tuple[Investigation, bool]:
    """The investigation, and whether it is a new one. Raises Conflict, Busy."""
    fresh = Investigation(
        id=f"v-{secrets.token_hex(8)}",
        run=asked.run,
        incident_id=asked.incident,
        question=asked.question,
        asked_by=asked.by,
        idempotency=asked.idempotency,
        request=asked.digest,
        created_s=now_s,
        updated_s=now_s,
        owner=owner,
        lease_s=now_s + LEASE_S,
        callback_url=asked.callback_url,
        callback=WAITING if asked.callback_url else NO_CALLBACK,
    )
    with store.write() as connection:
        known = investigations.by_key(connection, asked.idempotency) if asked.idempotency else None
        if known is None and investigations.num_under_way(connection) >= MAX_UNDER_WAY:
            raise Busy(f"{MAX_UNDER_WAY} investigations wait or run already")
        if known is None and investigations.add_investigation(connection, fresh):
            return fresh, True
        known = known or investigations.by_key(connection, asked.idempotency or "")
    assert known is not None, fresh
    if known.request != asked.digest:
        raise Conflict("this idempotency key was used for another request")
    return known, False
