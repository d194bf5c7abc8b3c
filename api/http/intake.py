"""POST /v1/ingest/…: what hosts send, answered when it is committed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, HTTPException, Request
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from argus.analytics.store.documents import dump_plain
from argus.api.http.answers import FORESEEN, Json, overloaded, problem, response_to
from argus.api.http.guard import INGEST, the_project, the_service
from argus.api.http.limits import Queue
from argus.api.http.wiring import read_body
from argus.api.service import Answer, NothingTaken, Service
from argus.collectors.records.errors import WireError
from argus.collectors.records.upload import (
    AGE_HEADER,
    CONTENT_TYPE,
    REPLAY_S,
    WIRE_HEADER,
    check_wire,
    parse_age,
)

THREADS = 32
"""Requests worked on at once: most of them wait for a commit, which those that wait together share."""

SMALL = 16
"""Heartbeats are a few kilobytes and share a thread and a commit: so many of them may wait for each place of an upload."""

BODIES_HELD = 4
"""Bodies of the largest size that may be in memory while they arrive; smaller ones, so many more."""

JSON_TYPE = "application/json"

LISTS = {
    "/layouts": ("layouts",),
    "/heartbeats": ("heartbeats",),
    "/observations": ("dumps", "samples", "stacks"),
}
"""What a body must hold."""

Take = Callable[[Service, bytes], Answer]
Answerer = Callable[[Request], Awaitable[Response]]


class BareRoute(APIRoute):
    """A route whose handler and whose scope take the request alone: what else FastAPI looks for is not there.

    `answer` is what `Door` calls. FastAPI's part took as long as the rest of a heartbeat, and a thousand hosts send
    two hundred a second.
    """

    answer: Answerer

    def get_route_handler(self) -> Answerer:  # type: ignore[override]
        """What answers a request: first those that admit, then the handler. They raise HTTPException."""
        before = [one.call for one in self.dependant.dependencies if one.call is not None]
        handler = self.endpoint

        async def answered(request: Request) -> Response:
            for admit in before:
                await admit(request)
            return cast(Response, await handler(request))

        self.answer = answered
        return answered


@dataclass(frozen=True, kw_only=True)
class Door:
    """Middleware that leads what hosts send straight to its route; everything else goes on through the router."""

    app: ASGIApp = field(kw_only=False)
    routes: Mapping[str, BareRoute]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = self.routes.get(scope["path"]) if scope.get("method") == "POST" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await route.answer(request)
        except FORESEEN as error:
            response = response_to(error)
        await response(scope, receive, send)


def door_routes(routes: Iterable[BaseRoute]) -> dict[str, BareRoute]:
    """Those that a `Door` leads to, by path."""
    return {route.path: route for route in routes if isinstance(route, BareRoute)}


class Gate:
    """Of one project: lets a bounded number of requests in, and a few of those at a time to work."""

    def __init__(self, *, room: int, max_bytes: int, replay: Queue) -> None:
        self._room, self._max_bytes = {False: room, True: SMALL * room}, max_bytes
        self._inside = {False: 0, True: 0}
        self._held_bytes = 0
        self.replay = replay
        self.workers = CapacityLimiter(THREADS)

    def crowd(self, *, is_small: bool) -> str:
        """Why one more of its kind would be turned away, "" if not: signs of life do not wait behind uploads."""
        room = self._room[is_small]
        return "" if self._inside[is_small] < room else f"{room} requests are being stored already"

    def enter(self, *, is_small: bool) -> bool:
        """Whether there was room; then `leave` must follow."""
        if self.crowd(is_small=is_small):
            return False
        self._inside[is_small] += 1
        return True

    def leave(self, *, is_small: bool) -> None:
        """Make room for the next of its kind."""
        self._inside[is_small] -= 1

    async def read(self, request: Request, *, limit: int) -> bytes:
        """The body; 503 while the bodies that arrive hold too much memory, however slowly they do."""
        size = min(int(length[:19]), limit) if (length := _announced(request)) else limit
        if self._held_bytes + size > self._max_bytes:
            raise HTTPException(503, "too many bodies are arriving", headers={"Retry-After": "5"})
        self._held_bytes += size
        try:
            return await read_body(request, limit=limit)
        finally:
            self._held_bytes -= size


def gate_of(request: Request) -> Gate:
    """The gate of the caller's project: one project's flood does not shut out the others."""
    gates: dict[str, Gate] = request.app.state.gates
    name, settings = the_project(request).name, the_service(request).settings
    if name not in gates:
        gates[name] = Gate(
            room=settings.max_uploads,
            max_bytes=BODIES_HELD * settings.max_body_bytes,
            replay=Queue(per_s=settings.max_replay_s, ticks=request.app.state.guard.ticks),
        )
    return gates[name]


def router() -> APIRouter:
    """The ingest routes."""
    routes = APIRouter(prefix="/v1/ingest", tags=["ingest"], dependencies=[INGEST], route_class=BareRoute)
    for path, handler, summary, media in (
        ("/layouts", put_layouts, "Layout records of ranks", JSON_TYPE),
        ("/windows", put_windows, "Rank windows of a host, packed and compressed", CONTENT_TYPE),
        ("/heartbeats", put_heartbeats, "Heartbeats of a host's ranks", JSON_TYPE),
        ("/observations", put_observations, "Stack dumps and host samples", JSON_TYPE),
    ):
        names = LISTS.get(path, ())
        lists = {name: {"type": "array"} for name in names}
        listed = {"type": "object", "properties": lists, "required": list(names)}
        schema = listed if media == JSON_TYPE else {"type": "string", "format": "binary"}
        routes.add_api_route(
            path,
            handler,
            methods=["POST"],
            operation_id=f"ingest_{path[1:]}",
            summary=summary,
            response_class=Json,
            openapi_extra={
                "requestBody": {"required": True, "content": {media: {"schema": schema}}},
                "parameters": [_header(WIRE_HEADER, "integer"), _header(AGE_HEADER, "number")],
            },
        )
    return routes


def _header(name: str, kind: str) -> dict[str, Any]:
    return {"in": "header", "name": name, "required": False, "schema": {"type": kind, "minimum": 0}}


async def put_layouts(request: Request) -> Response:
    """Takes `{"layouts": [...]}`; answers with the window plans of the attempts named."""
    return await take(request, Service.receive_layouts, media=JSON_TYPE)


async def put_heartbeats(request: Request) -> Response:
    """Takes `{"host": ..., "heartbeats": [...]}`; answers with the window plans of the attempts named."""
    return await take(request, Service.receive_heartbeats, media=JSON_TYPE)


async def put_observations(request: Request) -> Response:
    """Takes `{"host", "stacks": [...], "dumps": [...], "samples": [...]}`; each is stored once."""
    return await take(request, Service.receive_observations, media=JSON_TYPE, may_be_old=True)


async def put_windows(request: Request) -> Response:
    """Takes what `records.upload.encode_windows` makes; each (run, attempt, rank, window) is stored once."""
    age_s = parse_age(request.headers.get(AGE_HEADER))
    receive = cast(Take, partial(Service.receive_windows, age_s=age_s))
    return await take(request, receive, media=CONTENT_TYPE, may_be_old=True)


async def take(request: Request, receive: Take, *, media: str, may_be_old: bool = False) -> Response:
    """Let `receive` have the body, if there is room and it is of the right kind; count the answer.

    What `may_be_old` and waited long on its host comes after an outage, from everybody at once: it queues.
    """
    service = the_service(request)
    try:
        check_wire(request.headers.get(WIRE_HEADER))
        wait_s = 0.0
        if may_be_old and parse_age(request.headers.get(AGE_HEADER)) > REPLAY_S:
            wait_s = gate_of(request).replay.wait_s()
        response = _come_back(wait_s) if wait_s else await _received(request, receive, media=media)
    except (WireError, NothingTaken, HTTPException, SQLAlchemyError) as error:
        response = response_to(error)
    service.metrics.requests.labels(route=request.scope["path"], code=str(response.status_code)).inc()
    return response


def _come_back(wait_s: float) -> Response:
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return problem(429, "what waited through an outage is taken in turn: come back", headers=headers)


async def _received(request: Request, receive: Take, *, media: str) -> Response:
    service, gate = the_service(request), gate_of(request)
    got = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if got != media:
        return problem(415, f"Content-Type must be {media}, got {got!a:.60}")
    is_small = receive is Service.receive_heartbeats
    if not is_small and (reason := service.overload()):  # signs of life wait for no analysis
        return overloaded(reason)
    if reason := gate.crowd(is_small=is_small):
        return overloaded(reason)
    body = await gate.read(request, limit=service.settings.max_body_bytes)
    if not gate.enter(is_small=is_small):
        return overloaded(gate.crowd(is_small=is_small))
    try:
        service.metrics.body_bytes.inc(len(body))
        if is_small:  # those that wait together are one piece of work
            return Response(dump_plain(await service.gather_beats(body)), media_type=JSON_TYPE)
        answer = await to_thread.run_sync(_answer, receive, service, body, limiter=gate.workers)
        return response_to(answer) if isinstance(answer, Exception) else Json(answer)
    finally:
        gate.leave(is_small=is_small)


def _answer(receive: Take, service: Service, body: bytes) -> Answer | Exception:
    """What `receive` answers, or why it does not, as a value without the frames it was raised in.

    An error that leaves a thread becomes a cycle with its frames, which hold the upload unpacked: a hundred bad ones
    held eight gigabytes until the collector came by.
    """
    try:
        return receive(service, body)
    except (WireError, NothingTaken, SQLAlchemyError) as error:
        error.__context__ = None
        return error.with_traceback(None)


def _announced(request: Request) -> str:
    announced = request.headers.get("content-length", "")
    return announced if announced.isdecimal() else ""
