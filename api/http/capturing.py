"""/v1/…: orders that hosts wait for, captures of raw records, bursts of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import Response

from argus.analytics.store import orders
from argus.api import captures
from argus.api.captures import Refused, Wanted
from argus.api.http.answers import Json, not_found, problem
from argus.api.http.guard import INGEST, INVESTIGATE, READ
from argus.api.http.reading import which_attempt
from argus.api.http.shapes import Document
from argus.api.http.wiring import AttemptQuery, HostPath, IdPath, Rank, RunPath, ServiceOf, read_body
from argus.collectors.records.order import RECORDING_TYPE
from argus.collectors.records.upload import WIRE_HEADER, check_wire

MAX_WAIT_S = 30.0
MAX_RANKS = 256
"""Ranks of one capture: raw records of more are no longer looked at by a person."""

MAX_WINDOWS = 100
Ranks = Annotated[list[Rank], Field(max_length=MAX_RANKS)]


class Capture(BaseModel):
    """Raw records around an incident, or of ranks of a run over its last windows."""

    model_config = {"extra": "forbid"}
    incident: Annotated[str, Field(max_length=64)] | None = None
    run: Annotated[str, Field(max_length=256)] | None = None
    attempt: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    ranks: Ranks = []
    last: Annotated[int, Field(ge=1, le=MAX_WINDOWS)] = 3

    @model_validator(mode="after")
    def _one_of_two(self) -> Capture:
        if (self.incident is None) == (self.run is None):
            raise ValueError("name either an incident or a run")
        if self.run is not None and not self.ranks:
            raise ValueError("name the ranks of the run")
        return self


class Burst(BaseModel):
    """Stack dumps each second for a while; of all ranks if none is named."""

    model_config = {"extra": "forbid"}
    ranks: Ranks = []
    seconds: Annotated[float, Field(gt=0, le=60)] = 10.0
    native: bool = False


def router() -> APIRouter:
    """The routes; they come before `/runs/{run}`, whose name may hold a slash."""
    routes = APIRouter(prefix="/v1", tags=["captures"])
    table: tuple[tuple[str, str, Callable[..., object], Any], ...] = (
        ("GET", "/hosts/{host:path}/orders", list_orders, INGEST),
        ("POST", "/runs/{run:path}/burst", post_burst, INVESTIGATE),
        ("POST", "/captures", post_capture, INVESTIGATE),
        ("GET", "/captures/{capture}", get_capture, READ),
        ("POST", "/captures/{capture}/ranks/{rank}", put_part, INGEST),
    )
    for method, path, handler, needs in table:
        routes.add_api_route(
            path,
            handler,
            methods=[method],
            operation_id=handler.__name__,
            dependencies=[needs],
            response_class=Json,
            responses={200: {"model": Document}},
        )
    routes.add_api_route(
        "/captures/{capture}/ranks/{rank}",
        get_part,
        methods=["GET"],
        operation_id="get_part",
        dependencies=[READ],
        response_class=Response,
        responses={200: {"content": {RECORDING_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
    )
    return routes


async def list_orders(
    *,
    service: ServiceOf,
    host: HostPath,
    after: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0.0,
) -> Response:
    """What is asked of a host beyond order number `after`; waits up to `wait_s` for the first."""
    return Json({"orders": await service.board.wait(host, after=after, wait_s=wait_s)})


def post_burst(*, service: ServiceOf, run: RunPath, burst: Burst, attempt: AttemptQuery = None) -> Response:
    """Ask the hosts of a run for stack dumps each second."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
    try:
        hosts = captures.burst(
            service, which, ranks=burst.ranks, seconds=burst.seconds, is_native=burst.native
        )
    except Refused as error:
        return problem(409, str(error))
    return Json({"hosts": hosts})


def post_capture(*, service: ServiceOf, capture: Capture) -> Response:
    """Ask hosts for raw records; they come in within seconds, see the capture's `bytes`."""
    try:
        if capture.incident is not None:
            found = captures.capture_incident(service, capture.incident)
            if found is None:
                raise not_found(f"no incident {capture.incident!r}")
            return Json(found)
        with service.store.read() as connection:
            which = which_attempt(connection, str(capture.run), capture.attempt)
        wanted = Wanted(which=which, ranks=capture.ranks, last=capture.last)
        return Json(captures.capture_ranks(service, wanted))
    except Refused as error:
        return problem(409, str(error))


def get_capture(*, service: ServiceOf, capture: IdPath) -> Response:
    """A capture and the bytes of each rank that is in; 0 bytes: nothing of it was left."""
    with service.store.read() as connection:
        found = orders.capture(connection, capture)
    if found is None:
        raise not_found(f"no capture {capture!r}")
    return Json(found)


def get_part(*, service: ServiceOf, capture: IdPath, rank: Rank) -> Response:
    """One rank's recording, zstd."""
    with service.store.read() as connection:
        body = orders.part_of(connection, capture, rank)
    if body is None:
        raise not_found(f"rank {rank} of capture {capture!r} is not in")
    return Response(body, media_type=RECORDING_TYPE)


async def put_part(request: Request, *, service: ServiceOf, capture: IdPath, rank: Rank) -> Response:
    """Takes one rank's recording from its host, zstd."""
    if request.headers.get("content-type", "") != RECORDING_TYPE:
        return problem(415, f"Content-Type must be {RECORDING_TYPE}")
    check_wire(request.headers.get(WIRE_HEADER))
    body = await read_body(request, limit=service.settings.max_body_bytes)
    is_taken = await to_thread.run_sync(_store_part, service, capture, rank, body)
    if not is_taken:
        raise not_found(f"nobody asked for rank {rank} in capture {capture!r}")
    return Json({"bytes": len(body)})


def _store_part(service: ServiceOf, capture: str, rank: int, body: bytes) -> bool:
    with service.store.write() as connection:
        return orders.add_part(connection, capture, rank, body=body, now_s=service.clock())
