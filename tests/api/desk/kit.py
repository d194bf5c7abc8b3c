"""Incidents put into a store as the analysis would, a notifier that only remembers, HTTP that answers as told."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from sqlalchemy import select

from argus.agent.case import case_of
from argus.analytics.incident import Incident
from argus.analytics.store import incidents as incident_store
from argus.analytics.store.engine import Store
from argus.analytics.store.tables import INCIDENTS
from argus.api.notify.decide import Rules
from argus.api.notify.dispatcher import Desk, Dispatcher
from argus.api.notify.matter import Matter, Origin, matters_of
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Notifier
from argus.api.notify.pace import Pace
from argus.api.notify.post import Answer
from argus.api.service import Service
from tests.agent.jobs import facts_of
from tests.api.kit import FakeClock, layouts_body


@cache
def model_incident() -> Incident:
    """A slow rank, found and worded by the real triage."""
    facts = facts_of("slow_rank")
    run = facts.run(facts.runs()[0])
    assert run is not None
    incident = max(facts.incidents(), key=lambda one: one.cost.gpu_hours_per_day)
    return replace(incident, diagnosis=dict(case_of(run, incident).diagnosis))


def an_incident(
    *,
    run: str = "job",
    window: int = 5,
    scope: str = "rank:2",
    severity: str = "warning",
    status: str = "open",
    headline: str | None = None,
    **cause: Any,
) -> Incident:
    """One like it. `window` makes another incident of the same fingerprint, `scope` another fingerprint."""
    base = model_incident()
    diagnosis = dict(base.diagnosis or {})
    if headline is not None:
        diagnosis["headline"] = headline
    rank = int(scope.partition(":")[2]) if scope.startswith("rank:") else 2
    return replace(
        base,
        run=run,
        attempt=0,
        status=status,
        severity=severity,
        opened_window=window,
        last_window=window + 1,
        end_step=80 if status == "resolved" else None,
        cause=replace(base.cause, scope=scope, suspects=(rank,), **cause),
        diagnosis=diagnosis,
    )


def announce(service: Service, *runs: str) -> None:
    """Have the runs known; attempts are numbered from 1 in their order."""
    for run in runs or ("job",):
        service.receive_layouts(layouts_body(run=run))


def save(store: Store, incident: Incident, *, now_s: float, attempt_id: int = 1) -> Incident:
    """As the analysis does."""
    with store.write() as connection:
        incident_store.save_incident(connection, attempt_id, incident, now_s=now_s)
    return incident


def matter(store: Store, incident: Incident, *, now_s: float, origin: Origin | None = None) -> Matter:
    """What a notifier is told of it."""
    with store.read() as connection:
        rows = connection.execute(select(INCIDENTS).where(INCIDENTS.c.id == incident.id)).all()
        (found,) = matters_of(connection, rows, silences=(), now_s=now_s, origin=origin or Origin())
    return found


@dataclass
class Recorder:
    """A notifier that remembers; `failing` are raised in turn before it takes anything, `failing_digests` a digest."""

    rules: Rules = field(default_factory=Rules)
    is_paced: bool = True
    can_edit: bool = True
    obeys_alertmanager: bool = True
    told: list[Delivery] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    failing_digests: list[Exception] = field(default_factory=list)
    num_posts: int = 0

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """See `Notifier`."""
        if self.failing:
            raise self.failing.pop(0)
        if "ts" not in held:
            self.num_posts += 1
            keep({"ts": f"m{self.num_posts}"})
        self.told.append(delivery)

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """See `Notifier`."""
        if self.failing_digests:
            raise self.failing_digests.pop(0)
        self.digests.append(digest)
        keep({**held, "ts": digest.topic})

    @property
    def news(self) -> list[str]:
        """The news in order."""
        return [one.news for one in self.told]


def notice_counter() -> Counter:
    """The counter of notices, on no page."""
    return Counter("notices", "notices", ["notifier", "result"], registry=CollectorRegistry())


def dispatcher_of(
    store: Store,
    clock: FakeClock,
    notifiers: Mapping[str, Notifier],
    *,
    ticks: FakeClock | None = None,
    name: str = "one",
    pace: Pace | None = None,
    origin: Origin | None = None,
) -> Dispatcher:
    """A dispatcher that the test turns."""
    return Dispatcher(
        Desk(
            store=store,
            notifiers=notifiers,
            clock=clock,
            ticks=ticks or clock,
            rng=random.Random(0),
            counter=notice_counter(),
            name=name,
            pace=pace or Pace(),
            origin=origin or Origin(),
        )
    )


@dataclass
class FakeHttp:
    """Answers in turn, 202 when there are none left; `sent` are (url, JSON, headers)."""

    answers: list[Answer] = field(default_factory=list)
    sent: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)

    def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """See `Http`."""
        self.sent.append((url, json.loads(body), dict(headers)))
        self.raw.append(body)
        return self.answers.pop(0) if self.answers else Answer(status=202)

    def get(self, url: str) -> Answer:
        """See `Http`."""
        page = next((text for end, text in self.pages.items() if url.endswith(end)), None)
        return Answer(status=404) if page is None else Answer(status=200, text=page)

    def close(self) -> None:
        """See `Http`."""


def texts(blocks: Sequence[Mapping[str, Any]]) -> str:
    """All the text of blocks."""
    return json.dumps(list(blocks), ensure_ascii=False)
