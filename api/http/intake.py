"""POST /v1/ingest/…: what hosts send, answered when it is committed."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import APIRouter, HTTPException, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from argus.api.http.answers import Json, overloaded, problem, response_to
from argus.api.http.wiring import read_body, the_service
from argus.api.service import Answer, NothingTaken, Service
from argus.collectors.records.errors import NewerError, WireError
from argus.collectors.records.upload import CONTENT_TYPE, WIRE_HEADER, WIRE_VERSION

THREADS = 16
"""Requests worked on at once: most of them wait for a commit, which those that wait together share."""

BODY_TIMEOUT_S = 30.0
"""How long a body may take to arrive: a slow sender must not hold the room of the others."""

JSON_TYPE = "application/json"

Receive = Callable[[Service, bytes], Answer]


class Gate:
    """Lets a bounded number of requests in, and a few of those at a time to work."""

    def __init__(self, *, room: int) -> None:
        self._room = room
        self._inside = 0
        self.workers = CapacityLimiter(THREADS)

    def enter(self) -> bool:
        """Whether there was room; then `leave` must follow."""
        if self._inside >= self._room:
            return False
        self._inside += 1
        return True

    def leave(self) -> None:
        """Make room for the next."""
        self._inside -= 1


def router() -> APIRouter:
    """The ingest routes."""
    routes = APIRouter(prefix="/v1/ingest", tags=["ingest"])
    for path, handler, summary, media in (
        ("/layouts", put_layouts, "Layout records of ranks", JSON_TYPE),
        ("/windows", put_windows, "Rank windows of a host, packed and compressed", CONTENT_TYPE),
        ("/heartbeats", put_heartbeats, "Heartbeats of a host's ranks", JSON_TYPE),
        ("/observations", put_observations, "Stack dumps and host samples", JSON_TYPE),
    ):
        schema = {"type": "object"} if media == JSON_TYPE else {"type": "string", "format": "binary"}
        routes.add_api_route(
            path,
            handler,
            methods=["POST"],
            operation_id=f"ingest_{path[1:]}",
            summary=summary,
            response_class=Json,
            openapi_extra={"requestBody": {"required": True, "content": {media: {"schema": schema}}}},
        )
    return routes


async def put_layouts(request: Request) -> Response:
    """Takes `{"layouts": [...]}`; answers with the window plans of the attempts named."""
    return await take(request, Service.receive_layouts, media=JSON_TYPE)


async def put_heartbeats(request: Request) -> Response:
    """Takes `{"host": ..., "heartbeats": [...]}`; answers with the window plans of the attempts named."""
    return await take(request, Service.receive_heartbeats, media=JSON_TYPE)


async def put_observations(request: Request) -> Response:
    """Takes `{"host", "stacks": [...], "dumps": [...], "samples": [...]}`; each is stored once."""
    return await take(request, Service.receive_observations, media=JSON_TYPE)


async def put_windows(request: Request) -> Response:
    """Takes what `records.upload.encode_windows` makes; each (run, attempt, rank, window) is stored once."""
    return await take(request, Service.receive_windows, media=CONTENT_TYPE)


async def take(request: Request, receive: Receive, *, media: str) -> Response:
    """Let `receive` have the body, if there is room and it is of the right kind; count the answer."""
    service = the_service(request)
    try:
        response = await _received(request, receive, media=media)
    except (WireError, NothingTaken, HTTPException, SQLAlchemyError) as error:
        response = response_to(error)
    service.metrics.requests.labels(route=request.url.path, code=str(response.status_code)).inc()
    return response


async def _received(request: Request, receive: Receive, *, media: str) -> Response:
    service = the_service(request)
    gate: Gate = request.app.state.gate
    got = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if got != media:
        return problem(415, f"Content-Type must be {media}, got {got!a:.60}")
    version = request.headers.get(WIRE_HEADER, WIRE_VERSION)
    if version.isdecimal() and int(version) > int(WIRE_VERSION):
        raise NewerError(
            f"{WIRE_HEADER} is {version:.20}, this side speaks {WIRE_VERSION}: upgrade this side"
        )
    if version != WIRE_VERSION:
        return problem(415, f"{WIRE_HEADER} is {version!a:.20}, this side speaks {WIRE_VERSION}")
    if reason := service.overload():
        return overloaded(reason)
    if not gate.enter():
        return overloaded(f"{service.settings.max_uploads} requests are being stored already")
    try:
        with fail_after(BODY_TIMEOUT_S):
            body = await read_body(request, limit=service.settings.max_body_bytes)
        service.metrics.body_bytes.inc(len(body))
        if (
            receive is Service.receive_heartbeats
        ):  # many and small: those that wait together are one piece of work
            return Json(await service.gather_beats(body))
        return Json(await to_thread.run_sync(receive, service, body, limiter=gate.workers))
    except TimeoutError:
        return problem(408, f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s")
    finally:
        gate.leave()
