"""Alerts of others: each heard once, kept as out-of-band evidence, looked into for the runs it is about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from argus.analytics.store import events, heard
from argus.analytics.store.tables import ATTEMPTS, HEARTBEATS
from argus.api.investigating.asked import Asked, Busy
from argus.api.investigating.runner import Runner
from argus.api.service import Service
from argus.collectors.records.errors import WireError
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.text import tame

SOURCES = ("alertmanager", "grafana")
MAX_ALERTS = 500
MAX_RUNS = 3
"""Runs that one alert is looked into for; an alert on a switch stands over every job."""

HOST_LABELS = (
    "host",
    "hostname",
    "Hostname",
    "node",
    "nodename",
    "kubernetes_node",
    "exported_instance",
    "instance",
)
"""Labels that name a host, the surest first; `instance` often carries a port."""

GPU_LABELS = ("UUID", "gpu_uuid", "gpu")
RUN_LABEL, KIND_LABEL = "run", "argus_kind"
OURS = "Argus"
"""Begins the names of our own alerts, those of deploy/prometheus among them: what Argus told is no news to it."""

NO_KIND = ""
_PORT = re.compile(r":\d{1,5}$")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PLAIN = re.compile(r"[\w.:/@+-]+")


class NoAlerts(ValueError):
    """A body that is no webhook of Alertmanager's form; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert. `key` is the same however often it is sent; `node` "" where it names none."""

    key: str
    status: str
    node: str
    run: str
    kind: str
    text: str
    time_s: float


def alerts_of(raw: object) -> list[Alert]:
    """The alerts of a webhook's body, without our own. Raises NoAlerts."""
    items = raw.get("alerts") if isinstance(raw, Mapping) else None
    if not isinstance(items, list):
        raise NoAlerts(
            "the body must be an object with the list 'alerts', as Alertmanager and Grafana send it"
        )
    if len(items) > MAX_ALERTS:
        raise NoAlerts(f"at most {MAX_ALERTS} alerts at once, got {len(items)}")
    read = [_alert(item) for item in items if isinstance(item, Mapping)]
    return [one for one in read if one is not None]


def take(service: Service, runner: Runner, *, source: str, raw: object) -> dict[str, object]:
    """Keep what is new as events and begin to look into it; what came of it. Raises NoAlerts."""
    told = alerts_of(raw)
    now_s = service.clock()
    before_s = now_s - service.settings.keep_observations_s
    with service.store.write() as connection:
        new = [one for one in told if heard.hear(connection, source, one.key, now_s=now_s)]
        kept = [event for one in new if (event := _event(one, source, now_s=now_s)) is not None]
        num = events.add_events(connection, kept, now_s=now_s, before_s=before_s) if kept else 0
        wanted = [asked for one in new for asked in _asked(connection, one, source)]
    begun = list(_begun(runner, wanted))
    return {
        "accepted": len(new),
        "duplicates": len(told) - len(new),
        "events": num,
        "investigations": begun,
    }


def _begun(runner: Runner, wanted: Sequence[Asked]) -> Iterator[str]:
    for asked in wanted:
        try:
            yield runner.ask(asked)[0].id
        except Busy:  # the event is kept all the same, and what is under way may read it
            return


def _alert(raw: Mapping[str, Any]) -> Alert | None:
    labels, notes = _texts(raw.get("labels")), _texts(raw.get("annotations"))
    if labels.get("alertname", "").startswith(OURS):
        return None
    status = "resolved" if raw.get("status") == "resolved" else "firing"
    starts = tame(raw.get("startsAt", ""), 40)
    fingerprint = tame(
        raw.get("fingerprint") or hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest(), 40
    )
    name = labels.get("alertname", "alert")
    text = notes.get("summary") or notes.get("description") or notes.get("message") or ""
    return Alert(
        key=f"{fingerprint} {starts} {status}",
        status=status,
        node=_node(labels),
        run=labels.get(RUN_LABEL, ""),
        kind=_kind(labels, name),
        text=f"{name} {status}: {text}".strip(": ")[:500],
        time_s=_time_s(raw.get("endsAt") if status == "resolved" else starts),
    )


def _node(labels: Mapping[str, str]) -> str:
    host = next((_PORT.sub("", labels[key]) for key in HOST_LABELS if labels.get(key)), "")
    gpu = next((labels[key] for key in GPU_LABELS if labels.get(key)), "")
    if gpu and (gpu.startswith(("GPU-", "MIG-")) or not host):
        node = f"gpu:{gpu}"
    else:
        node = f"gpu:{host}/{gpu}" if gpu else f"host:{host}" if host else ""
    return node if _PLAIN.fullmatch(node) and len(node) <= 256 else ""


def _kind(labels: Mapping[str, str], name: str) -> str:
    """What its rule says it is; else a word of the alert's name that the analysis knows nothing of by itself."""
    named = labels.get(KIND_LABEL, "")
    if _WORD.fullmatch(named):
        return named
    word = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")[:32]
    return word if _WORD.fullmatch(word) else NO_KIND


def _texts(raw: object) -> dict[str, str]:
    if not isinstance(raw, Mapping):
        return {}
    return {tame(key, 200): tame(value, 500) for key, value in raw.items() if isinstance(value, str)}


def _time_s(raw: object) -> float:
    try:
        return max(datetime.fromisoformat(str(raw)).timestamp(), 0.0)
    except (ValueError, OverflowError, OSError):
        return 0.0


def _event(one: Alert, source: str, *, now_s: float) -> OutsideEvent | None:
    """The alert as an event; None where it names nothing that a run stands on. One without a time is of now."""
    try:
        return OutsideEvent.from_json(
            {
                "time": one.time_s or now_s,
                "node": one.node or f"run:{one.run}",
                "source": source,
                "kind": one.kind if one.status == "firing" else "",
                "text": one.text,
            }
        )
    except WireError:
        return None


def _asked(connection: Connection, one: Alert, source: str) -> list[Asked]:
    """An investigation for each live run the alert is about. The alert's own words are evidence, not a question."""
    if one.status != "firing":
        return []
    question = f"An alert of {source} names {one.node or 'this run'}. Does it explain what this run shows?"
    key = hashlib.sha256(f"{source} {one.key}".encode()).hexdigest()[:32]
    return [
        Asked(
            run=run,
            incident=None,
            question=question,
            by=source,
            idempotency=f"alert:{key}:{hashlib.sha256(run.encode()).hexdigest()[:16]}",
        )
        for run in _runs(connection, one)
    ]


def _runs(connection: Connection, one: Alert) -> list[str]:
    """Live runs that it names, or that work on its host."""
    live = select(ATTEMPTS.c.run).where(ATTEMPTS.c.status == "live")
    if one.run:
        return list(connection.execute(live.where(ATTEMPTS.c.run == one.run).limit(1)).scalars())
    kind, _, name = one.node.partition(":")
    host = name if kind == "host" else name.rpartition("/")[0]
    if kind not in ("host", "gpu") or not host:
        return []
    here = select(HEARTBEATS.c.attempt_id).where(HEARTBEATS.c.host == host)
    latest = live.where(ATTEMPTS.c.id.in_(here)).order_by(ATTEMPTS.c.last_seen_s.desc())
    return list(dict.fromkeys(connection.execute(latest.limit(2 * MAX_RUNS)).scalars()))[:MAX_RUNS]
