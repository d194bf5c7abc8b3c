"""PagerDuty by its Events API v2: triggers when an incident opens, acknowledges and resolves with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from argus.analytics.store.documents import dump
from argus.analytics.store.marks import ACKNOWLEDGED
from argus.api.notifiers._sending import check, checked_floor, checked_url
from argus.api.notify.decide import RESOLVED, Rules
from argus.api.notify.matter import own_key
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Means
from argus.api.notify.post import Http
from argus.collectors.records.text import tame

SECRETS = ("key",)

MAX_SUMMARY = 1024
"""Characters of a summary that the API takes."""

MAX_FIELD = 1024
MAX_ACTION = 500
MAX_CLAIMS = 5


def notifier(
    means: Means,
    *,
    key: str = "",
    severity: str = "critical",
    url: str = "https://events.pagerduty.com",
) -> PagerDuty:
    """`key` is the integration's routing key, `severity` the least that wakes somebody."""
    if not key:
        raise ValueError(
            "key: set ARGUS_PAGERDUTY_KEY to the integration key of an Events API v2 integration"
        )
    return PagerDuty(http=means.http, key=key, url=checked_url(url), floor=checked_floor(severity))


@dataclass(frozen=True, kw_only=True)
class PagerDuty:
    """See the module. Project and fingerprint are its deduplication key: the same event sent twice is one."""

    http: Http
    key: str = field(repr=False)
    url: str
    floor: str
    is_paced: bool = False
    can_edit: bool = True
    obeys_alertmanager: bool = True

    @property
    def rules(self) -> Rules:
        """What PagerDuty does with a cause that comes back is set up there."""
        return Rules(floor=self.floor)

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """Trigger again with what is newest, or resolve; then acknowledge if somebody has."""
        matter = delivery.matter
        event: dict[str, Any] = {
            "routing_key": self.key,
            "dedup_key": f"argus-{own_key(matter.project, matter.incident.fingerprint)}",
            "event_action": "resolve" if delivery.news == RESOLVED else "trigger",
        }
        if delivery.news != RESOLVED:
            event |= {
                "payload": _payload(delivery),
                "client": "Argus",
                **({"client_url": matter.link, "links": _links(matter.link)} if matter.link else {}),
            }
        self._send(event)
        has_taken = any(mark.what == ACKNOWLEDGED for mark in matter.marks)
        if delivery.news != RESOLVED and has_taken:
            self._send({**event, "event_action": "acknowledge"})

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """Never asked: it is not paced."""
        raise AssertionError(digest.topic)

    def _send(self, event: Json) -> None:
        check(self.http.post(f"{self.url}/v2/enqueue", dump(event).encode(), headers={}), who="PagerDuty")


def _links(link: str) -> list[Json]:
    return [{"href": link, "text": "The incident in Argus"}]


def _payload(delivery: Delivery) -> Json:
    matter, incident = delivery.matter, delivery.matter.incident
    headline = str(matter.diagnosis.get("headline") or f"{incident.cause.fault_class} {incident.cause.scope}")
    actions = matter.diagnosis.get("remediation") or []
    return {
        "summary": tame(f"{matter.verdict}: {headline}", MAX_SUMMARY),
        "source": tame(",".join(matter.hosts) or matter.run, MAX_FIELD),
        "severity": incident.severity,
        "timestamp": datetime.fromtimestamp(matter.opened_s, tz=UTC).isoformat(),
        "component": tame(incident.cause.scope, MAX_FIELD),
        "group": tame(matter.run, MAX_FIELD),
        "class": incident.cause.fault_class,
        "custom_details": {
            "incident": incident.id,
            "verdict": matter.verdict,
            "suspects": list(incident.cause.suspects[:64]),
            "since_step": incident.onset_step,
            "share_of_step": incident.cost.share_of_step,
            "next": [tame(str(action.get("action", "")), MAX_ACTION) for action in actions[:MAX_CLAIMS]],
            "ruled_out": [one.fault_class for one in incident.cause.ruled_out[:MAX_CLAIMS]],
        },
    }
