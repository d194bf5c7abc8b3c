"""/v1/silences, /v1/notices and the marks of incidents: who hears of what, what was told, what people said of it."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator
from starlette.responses import Response

from argus.analytics.store import marks, notices, queries, silences
from argus.analytics.store.marks import Mark
from argus.analytics.store.silences import ARGUS, Matcher, Silence
from argus.api.http.answers import Json, add_read, not_found, problem
from argus.api.http.desk import By, DeskOf, Prose, Word
from argus.api.http.guard import APPROVE, READ
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import IdPath, PageQuery, ServiceOf

MAX_S = 90 * 86400.0
"""A silence longer than a quarter of a year is a change of the settings."""

Label = Annotated[Word, Field(min_length=1)]


class NewSilence(BaseModel):
    """What nobody wants to hear of, all of it together, for a time; `starts_s` in Unix seconds, now when absent."""

    model_config = {"extra": "forbid"}
    run: Label | None = None
    host: Label | None = None
    fault_class: Annotated[Label | None, Field(alias="class")] = None
    fingerprint: Label | None = None
    starts_s: Annotated[float, Field(ge=0, le=1e11)] | None = None
    duration_s: Annotated[float, Field(gt=0, le=MAX_S)]
    why: Prose = ""

    @model_validator(mode="after")
    def _says_what(self) -> NewSilence:
        if not self.matchers:
            raise ValueError("name a run, a host, a class or a fingerprint: nothing silences everything")
        return self

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """Its conditions."""
        named = {
            "run": self.run,
            "host": self.host,
            "class": self.fault_class,
            "fingerprint": self.fingerprint,
        }
        return tuple(Matcher(name=name, value=value) for name, value in named.items() if value)


class Said(StrEnum):
    """What may be said of an incident."""

    ACKNOWLEDGED = "acknowledged"
    WRONG = "wrong"
    RIGHT = "right"


class NewMark(BaseModel):
    """What somebody says of an incident."""

    model_config = {"extra": "forbid"}
    what: Said
    text: Prose = ""


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["notices"], dependencies=[READ])
    for path, handler, method, status in (
        ("/silences", post_silence, "POST", 201),
        ("/silences/{silence}", delete_silence, "DELETE", 200),
        ("/incidents/{incident}/marks", post_mark, "POST", 201),
    ):
        routes.add_api_route(
            path,
            handler,
            methods=[method],
            status_code=status,
            operation_id=handler.__name__,
            dependencies=[APPROVE],
            response_class=Json,
            responses={status: {"model": Document}},
        )
    add_read(routes, "/silences", handler=list_silences, model=Items)
    add_read(routes, "/incidents/{incident}/marks", handler=list_marks, model=Items)
    add_read(routes, "/notices", handler=list_notices, model=Items)
    return routes


def post_silence(*, service: ServiceOf, desk: DeskOf, by: By, wanted: NewSilence) -> Response:
    """Silence what fits all that is named; messages that are there already go on being edited."""
    now_s = service.clock()
    starts_s = now_s if wanted.starts_s is None else wanted.starts_s
    made = Silence(
        id=f"s-{secrets.token_hex(8)}",
        source=ARGUS,
        matchers=wanted.matchers,
        starts_s=starts_s,
        ends_s=starts_s + wanted.duration_s,
        by=by,
        why=wanted.why,
    )
    if made.ends_s <= now_s:
        return problem(422, "it would have ended already")
    with service.store.write() as connection:
        silences.add_silence(connection, made)
    desk.dispatcher.poke()
    return Json(made.to_json(), status_code=201)


def delete_silence(*, service: ServiceOf, desk: DeskOf, silence: IdPath) -> Response:
    """End a silence now; those of Alertmanager end there."""
    with service.store.write() as connection:
        found = silences.silence(connection, silence)
        if found is None:
            raise not_found(f"no silence {silence!r}")
        if found.source != ARGUS:
            return problem(409, "this silence is Alertmanager's; end it there")
        silences.end_silence(connection, silence, now_s=service.clock())
        found = silences.silence(connection, silence)
    assert found is not None, silence
    desk.dispatcher.poke()
    return Json(found.to_json())


def list_silences(*, service: ServiceOf, page: PageQuery) -> Response:
    """Silences that have not ended, the first to end first."""
    with service.store.read() as connection:
        found = silences.lasting_silences(connection, now_s=service.clock())
    items = [one.to_json() for one in found]
    shown = items[page.offset : page.offset + page.limit]
    return Json({"items": shown, "total": len(items), "limit": page.limit, "offset": page.offset})


def post_mark(*, service: ServiceOf, desk: DeskOf, by: By, incident: IdPath, wanted: NewMark) -> Response:
    """Say that somebody has it, or that it is wrong or right; the same said twice is once."""
    said = Mark(incident_id=incident, at_s=service.clock(), what=wanted.what, by=by, text=wanted.text)
    with service.store.write() as connection:
        if queries.whole_incident(connection, incident) is None:
            raise not_found(f"no incident {incident!r}")
        marks.add_mark(connection, said)
    desk.dispatcher.poke()
    return Json(said.to_json(), status_code=201)


def list_marks(*, service: ServiceOf, page: PageQuery, incident: IdPath) -> Response:
    """What was said of an incident, oldest first."""
    with service.store.read() as connection:
        if queries.whole_incident(connection, incident) is None:
            raise not_found(f"no incident {incident!r}")
        found = [mark.to_json() for mark in marks.marks_of(connection, [incident])]
    shown = found[page.offset : page.offset + page.limit]
    return Json({"items": shown, "total": len(found), "limit": page.limit, "offset": page.offset})


def list_notices(*, service: ServiceOf, page: PageQuery) -> Response:
    """What each notifier was told and what stands in its way, the latest first."""
    with service.store.read() as connection:
        found = notices.notices(connection)
    items = [
        {
            "notifier": one.notifier,
            "topic": one.topic,
            "incident": one.incident_id,
            "status": one.status,
            "severity": one.severity or None,
            "times": one.times,
            "posted_s": one.posted_s,
            "delivered_s": one.delivered_s,
            "is_final": one.is_final,
            "tries": one.tries,
            "error": one.error or None,
        }
        for one in found
    ]
    shown = items[page.offset : page.offset + page.limit]
    return Json({"items": shown, "total": len(items), "limit": page.limit, "offset": page.offset})
