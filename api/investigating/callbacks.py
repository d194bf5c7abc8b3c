"""Calling back who asked for an investigation: signed, a few times, by one service at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from argus.analytics.store import investigations
from argus.analytics.store.documents import dump
from argus.analytics.store.engine import Store
from argus.analytics.store.investigations import GIVEN_UP, SENT, WAITING, Investigation
from argus.api.notify.post import Http, is_allowed_host, signed
from argus.api.settings import Settings

MAX_TRIES = 6
FIRST_RETRY_S = 5.0
"""Five seconds, then twice as long each time: the last try is some three minutes after the first."""

MAX_REST_S = 600.0
"""No try waits so long: one that seems to was put off before the clock was put back."""

LEASE_S = 60.0
"""How long a call may take before another service makes it: connecting, sending and listening have ten seconds each."""


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Of one project."""

    store: Store
    http: Http
    settings: Settings
    clock: Callable[[], float]

    def turn(self, now_s: float) -> int:
        """Make the calls that are due; how many were taken."""
        with self.store.read() as connection:
            due = investigations.due_callbacks(connection, now_s=now_s, rest_s=MAX_REST_S)
        return sum(map(self._call, due))

    def _call(self, one: Investigation) -> bool:
        """Make one call, from now: those before it in this turn may have taken long."""
        now_s = self.clock()
        tries = one.callback_tries + 1
        next_s = now_s + FIRST_RETRY_S * 2**one.callback_tries
        with self.store.write() as connection:
            is_mine = investigations.note_callback(
                connection, one.id, tries=tries, state=WAITING, next_s=max(next_s, now_s + LEASE_S)
            )
        if not is_mine:
            return False
        is_good = self._is_taken(one, now_s=now_s)
        state = SENT if is_good else GIVEN_UP if tries >= MAX_TRIES else WAITING
        with self.store.write() as connection:
            investigations.settle_callback(connection, one.id, state=state, next_s=next_s)
        return is_good

    def _is_taken(self, one: Investigation, *, now_s: float) -> bool:
        """The host is checked again: the settings may have changed since it was asked for."""
        if not self.settings.callback_secret or not is_allowed_host(
            one.callback_url, self.settings.callback_hosts
        ):
            return False
        body = dump({"investigation": one.to_json()}).encode()
        headers = signed(self.settings.callback_secret, body, id=one.id, now_s=now_s)
        return self.http.post(one.callback_url, body, headers=headers).is_good
