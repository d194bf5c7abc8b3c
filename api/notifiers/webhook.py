"""A generic webhook: every change of an incident as JSON, signed with HMAC so that the receiver knows who sent it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from argus.analytics.store.documents import dump
from argus.api.notifiers._sending import check, checked_floor, checked_url
from argus.api.notify.decide import Rules
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Means
from argus.api.notify.post import Http, signed

SECRETS = ("secret",)

SCHEMA = "argus.notice/1"


def notifier(means: Means, *, url: str = "", secret: str = "", severity: str = "info") -> Webhook:
    """`url` takes the notices, `secret` signs them, `severity` is the least that is told."""
    if not secret:
        raise ValueError("secret: set ARGUS_WEBHOOK_SECRET, the key that the receiver checks signatures with")
    signed(secret, b"", id="", now_s=0.0)
    return Webhook(http=means.http, url=checked_url(url), secret=secret, floor=checked_floor(severity))


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """See the module."""

    http: Http
    url: str = field(repr=False)
    secret: str = field(repr=False)
    floor: str
    is_paced: bool = False
    can_edit: bool = True
    obeys_alertmanager: bool = True

    @property
    def rules(self) -> Rules:
        """Every change, and each return of a cause."""
        return Rules(floor=self.floor)

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """One event; its id is the same for the same news, so a receiver can tell a repetition."""
        matter = delivery.matter
        body = {
            "schema": SCHEMA,
            "event": delivery.news,
            "times": delivery.times,
            "labels": matter.labels,
            "link": matter.link or None,
            "incident": {**matter.incident.to_json(), "diagnosis": dict(matter.diagnosis)},
            "marks": [asdict(mark) for mark in matter.marks],
        }
        self._send(f"{matter.incident.id}.{delivery.news}.{_stamp(matter.told)}", body, now_s=delivery.now_s)

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """Never asked: it is not paced."""
        raise AssertionError(digest.topic)

    def _send(self, id: str, body: Mapping[str, Any], *, now_s: float) -> None:
        raw = dump(body).encode()
        headers = signed(self.secret, raw, id=id, now_s=now_s)
        check(self.http.post(self.url, raw, headers=headers), who="the webhook")


def _stamp(told: str) -> str:
    return hashlib.sha256(told.encode()).hexdigest()[:12]
