"""/v1/investigations: asked for, followed step by step, asked further, cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated

from anyio import sleep, to_thread
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from argus.agent.context import Unknown
from argus.analytics.store import investigations, queries
from argus.analytics.store.investigations import UNDER_WAY, Investigation
from argus.api.desk import Desk
from argus.api.http import sse
from argus.api.http.answers import Json, add_read, not_found, overloaded, problem
from argus.api.http.asking import AskingOf, unknown
from argus.api.http.desk import By, DeskOf, Prose, Word
from argus.api.http.guard import INVESTIGATE, READ, PrincipalOf
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import MAX_INDEX, IdPath, Name, PageQuery, ServiceOf
from argus.api.investigating.asked import Asked, BadCallback, Busy, Conflict, check_callback

MAX_EVENTS = 500
"""Events sent at once to one who comes late."""

GLANCE_S, LOOK_S = 0.1, 1.0
"""How often it is asked whether this service has kept a step, and how often the database, for those of others."""


class InvestigationStatus(StrEnum):
    """Where an investigation is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class Wanted(BaseModel):
    """What is to be investigated: an incident, else a run's costliest, else that of the run heard of last."""

    model_config = {"extra": "forbid"}
    run: Word | None = None
    incident: Word | None = None
    question: Prose = ""
    callback_url: Annotated[str, Field(max_length=2000, pattern="^[!-~]+$")] | None = None


class Said(BaseModel):
    """A further question."""

    model_config = {"extra": "forbid"}
    text: Annotated[Prose, Field(min_length=1)]


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=128,
        pattern="^[!-~]+$",
        description="asks once, however often sent",
    ),
]
LastEvent = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=MAX_INDEX)]


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["investigations"], dependencies=[READ])
    routes.add_api_route(
        "/investigations",
        post_investigation,
        methods=["POST"],
        status_code=202,
        operation_id="post_investigation",
        dependencies=[INVESTIGATE],
        response_class=Json,
        responses={202: {"model": Document}},
    )
    add_read(routes, "/investigations", handler=list_investigations, model=Items)
    add_read(routes, "/investigations/{investigation}", handler=get_investigation, model=Document)
    routes.add_api_route(
        "/investigations/{investigation}/events",
        get_investigation_events,
        methods=["GET"],
        operation_id="get_investigation_events",
        responses={200: {"content": sse.CONTENT}},
    )
    for path, handler in (("messages", post_investigation_message), ("cancel", cancel_investigation)):
        routes.add_api_route(
            f"/investigations/{{investigation}}/{path}",
            handler,
            methods=["POST"],
            status_code=202,
            operation_id=handler.__name__,
            dependencies=[INVESTIGATE],
            response_class=Json,
            responses={202: {"model": Document}},
        )
    return routes


def post_investigation(
    *,
    desk: DeskOf,
    asking: AskingOf,
    who: PrincipalOf,
    by: By,
    wanted: Wanted,
    idempotency: IdempotencyKey = None,
) -> Response:
    """Begin an investigation; its steps and its outcome come under its id. The deterministic triage is there at once."""
    try:
        if wanted.callback_url is not None:
            check_callback(wanted.callback_url, desk.service.settings)
        case = asking.case(run=wanted.run, incident=wanted.incident)
        asked = Asked(
            run=case.facts.run,
            incident=case.incident.id if case.incident else None,
            question=wanted.question,
            by=by,
            idempotency=f"{who.key}:{idempotency}" if idempotency else None,
            callback_url=wanted.callback_url or "",
        )
        found, is_new = desk.runner.ask(asked)
    except BadCallback as error:
        return problem(422, str(error))
    except Unknown as error:
        raise unknown(error) from None
    except Conflict as error:
        return problem(409, str(error))
    except Busy as error:
        return overloaded(str(error))
    headers = {"Location": f"/v1/investigations/{found.id}"}
    body = {**found.to_json(), "is_new": is_new, "triage": dict(case.diagnosis)}
    return Json(body, status_code=202, headers=headers)


def list_investigations(
    *,
    service: ServiceOf,
    page: PageQuery,
    run: Name | None = None,
    incident: Name | None = None,
    status: InvestigationStatus | None = None,
) -> Response:
    """Investigations, the latest first."""
    with service.store.read() as connection:
        found = investigations.investigations(
            connection, run=run, incident_id=incident, status=status, limit=page.limit, offset=page.offset
        )
    return Json({"items": found.items, "total": found.total, "limit": page.limit, "offset": page.offset})


def get_investigation(*, service: ServiceOf, investigation: IdPath) -> Response:
    """One investigation with its outcome."""
    return Json(_kept(service, investigation).to_json())


def post_investigation_message(
    *, service: ServiceOf, desk: DeskOf, by: By, investigation: IdPath, said: Said
) -> Response:
    """Ask further about a finished investigation; the answer is an event of it."""
    kept = _kept(service, investigation)
    try:
        desk.runner.follow_up(kept, said.text, by=by)
    except Conflict as error:
        return problem(409, str(error))
    return Json(_kept(service, investigation).to_json(), status_code=202)


def cancel_investigation(*, service: ServiceOf, desk: DeskOf, investigation: IdPath) -> Response:
    """End an investigation; one that has ended stays as it is."""
    kept = _kept(service, investigation)
    is_live = desk.runner.cancel(kept.id)
    return Json({**_kept(service, investigation).to_json(), "is_cancelled": is_live}, status_code=202)


async def get_investigation_events(
    *,
    service: ServiceOf,
    desk: DeskOf,
    investigation: IdPath,
    last: LastEvent = None,
    after: Annotated[int, Query(ge=0, le=MAX_INDEX, description="events after this number")] = 0,
) -> Response:
    """Its steps as server-sent events, those after `Last-Event-ID` or `after`; ends when the investigation has.

    After a number that it never had, such as one from before the database was put back, all of them come.
    """
    await to_thread.run_sync(_kept, service, investigation)
    start = await to_thread.run_sync(_known, service, investigation, last or after)
    if desk.num_streams >= sse.MAX_STREAMS:
        return overloaded(f"{sse.MAX_STREAMS} streams are open already")
    return sse.streamed(_followed(desk, investigation, after=start))


async def _followed(desk: Desk, investigation: str, *, after: int) -> AsyncIterator[bytes]:
    """Events as they come; a comment where none come for long."""
    desk.num_streams += 1
    quiet_s = 0.0
    try:
        while True:
            seen = desk.runner.num_news
            told, is_live = await to_thread.run_sync(_news, desk, investigation, after)
            for one in told:
                after, quiet_s = one["number"], 0.0
                yield sse.event(one["what"], one["body"], id=after)
            if not told and (not is_live or desk.service.board.is_closed):
                return
            if not told:
                quiet_s += await _next_look(desk, seen)
            if quiet_s >= sse.KEEP_ALIVE_S:
                quiet_s = 0.0
                yield b": waiting\n\n"
    finally:
        desk.num_streams -= 1


async def _next_look(desk: Desk, seen: int) -> float:
    """Wait for news of this service, at most LOOK_S; how long it was."""
    waited_s = 0.0
    while waited_s < LOOK_S and desk.runner.num_news == seen and not desk.service.board.is_closed:
        await sleep(GLANCE_S)
        waited_s += GLANCE_S
    return waited_s


def _news(desk: Desk, investigation: str, after: int) -> tuple[list[queries.Json], bool]:
    """Events after a number, and whether more may come."""
    with desk.service.store.read() as connection:
        kept = investigations.investigation(connection, investigation)
        told = investigations.events_after(connection, investigation, number=after, limit=MAX_EVENTS)
    return told, kept is not None and kept.status in UNDER_WAY


def _known(service: ServiceOf, investigation: str, number: int) -> int:
    """The event's number, 0 if there is none such yet."""
    with service.store.read() as connection:
        told = investigations.events_after(connection, investigation, number=number - 1, limit=1)
    return number if told else 0


def _kept(service: ServiceOf, investigation: str) -> Investigation:
    with service.store.read() as connection:
        found = investigations.investigation(connection, investigation)
    if found is None:
        raise not_found(f"no investigation {investigation!r}")
    return found
