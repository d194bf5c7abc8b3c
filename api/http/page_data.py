"""/v1/page and /v1/captures…: what the web page must know of the service, and traces to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from argus.analytics.store import charts, observations, orders, queries
from argus.api.captured import Unreadable, records_in, trace_name, trace_of
from argus.api.http.answers import Json, add_read, not_found, problem
from argus.api.http.guard import READ
from argus.api.http.shapes import Document
from argus.api.http.wiring import IdPath, ServiceOf
from argus.collectors.records.events import RankRecords

MAX_CAPTURES = 5
MAX_DUMPS = 1000
TRACE_TYPE = "application/octet-stream"


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["page"], dependencies=[READ])
    table: tuple[tuple[str, Callable[..., Response]], ...] = (
        ("/page", get_page),
        ("/captures", list_captures),
    )
    for path, handler in table:
        add_read(routes, path, handler=handler, model=Document)
    routes.add_api_route(
        "/captures/{capture}/timeline", get_timeline, methods=["GET"], operation_id="get_timeline"
    )
    return routes


def get_page(*, service: ServiceOf) -> Response:
    """What the web page shows of the service itself, and where its links lead."""
    settings = service.settings
    return Json(
        {
            "version": _version(),
            "now_s": service.clock(),
            "notice": settings.notice,
            "grafana_url": settings.grafana_url.rstrip("/"),
            "perfetto_url": settings.perfetto_url.rstrip("/"),
            "has_model": bool(settings.model_url),
        }
    )


def list_captures(*, service: ServiceOf, incident: Annotated[str, Query(max_length=64)]) -> Response:
    """The latest captures of an incident, each with the bytes of the ranks that are in."""
    with service.store.read() as connection:
        which = queries.attempt_of_incident(connection, incident)
        if which is None:
            raise not_found(f"no incident {incident!r}")
        ids = charts.captures_of(connection, which, incident=incident, limit=MAX_CAPTURES)
        items = [orders.capture(connection, one) for one in ids]
    return Json({"items": items, "total": len(items)})


def get_timeline(*, service: ServiceOf, capture: IdPath) -> Response:
    """A capture as one clock-aligned Perfetto file."""
    with service.store.read() as connection:
        found = orders.capture(connection, capture)
        if found is None:
            raise not_found(f"no capture {capture!r}")
        bodies = [orders.part_of(connection, capture, int(rank)) for rank in found["bytes"]]
        which = queries.attempt_of_capture(connection, capture)
        assert which is not None, found
        dumps = observations.stacks(
            connection, which.id, ranks=found["ranks"], reason=None, limit=MAX_DUMPS, offset=0
        )
    ranks, left_out = _readable([body for body in bodies if body])
    if not ranks:
        return problem(409, left_out[0] if left_out else f"nothing of capture {capture!r} is in yet")
    headers = {
        "Content-Disposition": f'attachment; filename="{trace_name(found)}"',
        "Argus-Left-Out": str(len(left_out)),
    }
    return Response(trace_of(found, ranks, stacks=dumps.items), media_type=TRACE_TYPE, headers=headers)


def _readable(bodies: Sequence[bytes]) -> tuple[list[RankRecords], list[str]]:
    """The records of the parts that can be read, and why others cannot."""
    ranks: list[RankRecords] = []
    left_out: list[str] = []
    for body in bodies:
        try:
            ranks += records_in(body)
        except Unreadable as error:
            left_out.append(f"a part of the capture cannot be read: {error}")
    return ranks, left_out


def _version() -> str:
    try:
        return version("argus-triage")
    except PackageNotFoundError:
        return "not installed"
