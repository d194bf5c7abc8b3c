"""Prometheus Alertmanager: one alert per incident by its API v2, so that routes, silences and inhibitions stay there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from argus.analytics.store.documents import dump
from argus.analytics.store.silences import Silence
from argus.api.notifiers._sending import check, checked_floor, checked_url
from argus.api.notify.decide import RESOLVED, Rules
from argus.api.notify.foreign import foreign_silences
from argus.api.notify.matter import Matter
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Means
from argus.api.notify.post import Http
from argus.collectors.records.text import tame

REPEAT_S = 60.0
"""An alert is told again so often while its incident is open, as Prometheus does."""

LASTS_S = 4 * REPEAT_S
"""Without a repetition it ends by itself: a service that has died must not leave alerts behind."""

MAX_ANNOTATION = 1000


def notifier(means: Means, *, url: str = "", severity: str = "warning", silences: int = 1) -> Alertmanager:
    """`url` is Alertmanager's own, `severity` the least that is told, `silences` 1 takes its silences over, too."""
    return Alertmanager(
        http=means.http,
        url=checked_url(url),
        floor=checked_floor(severity),
        public_url=means.origin.public_url,
        takes_silences=bool(silences),
    )


@dataclass(frozen=True, kw_only=True)
class Alertmanager:
    """See the module. Its own silences do not keep alerts from it: it applies them itself, and shows that."""

    http: Http
    url: str
    floor: str
    public_url: str
    takes_silences: bool = True
    is_paced: bool = False
    can_edit: bool = True
    obeys_alertmanager: bool = False

    @property
    def rules(self) -> Rules:
        """Told again while open; a cause that comes back fires at once."""
        return Rules(floor=self.floor, repeat_s=REPEAT_S)

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """Fire or resolve; where a label has changed, the alert of the old labels ends in the same request."""
        matter, labels = delivery.matter, delivery.matter.labels
        is_over = delivery.news == RESOLVED
        alerts = [self._alert(matter, labels, is_over=is_over, now_s=delivery.now_s)]
        before = held.get("labels")
        if before and before != labels:
            alerts.append(self._alert(matter, before, is_over=True, now_s=delivery.now_s))
        answer = self.http.post(f"{self.url}/api/v2/alerts", dump(alerts).encode(), headers={})
        check(answer, who="Alertmanager")
        keep({"labels": labels})

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """Never asked: it is not paced."""
        raise AssertionError(digest.topic)

    def read_silences(self) -> Sequence[Silence] | None:
        """Alertmanager's active and pending silences; those that say nothing we know match nothing."""
        if not self.takes_silences:
            return None
        answer = self.http.get(f"{self.url}/api/v2/silences")
        return foreign_silences(answer.text) if answer.is_good else None

    def _alert(self, matter: Matter, labels: dict[str, str], *, is_over: bool, now_s: float) -> Json:
        diagnosis, ends_s = matter.diagnosis, now_s if is_over else now_s + LASTS_S
        actions = diagnosis.get("remediation") or [{}]
        annotations = {
            "summary": str(diagnosis.get("headline", "")),
            "description": str(actions[0].get("action", "")),
            "incident": matter.incident.id,
            "verdict": matter.verdict,
        }
        return {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {name: tame(text, MAX_ANNOTATION) for name, text in annotations.items() if text},
            # Of an alert that ends before it starts all of the request is refused; the clock may have been put back.
            "startsAt": _rfc3339(min(matter.opened_s, ends_s)),
            "endsAt": _rfc3339(ends_s),
            "generatorURL": matter.link or self.public_url,
        }


def _rfc3339(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, tz=UTC).isoformat().replace("+00:00", "Z")
