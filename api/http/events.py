"""/v1/events: what somebody else saw of the hardware, taken once each and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from argus.analytics.outside import ranks_under
from argus.analytics.store import events, progress
from argus.analytics.store.queries import Json as Row
from argus.api.http.answers import Json
from argus.api.http.guard import READ, TELL
from argus.api.http.intake import JSON_TYPE, take
from argus.api.http.reading import which_attempt
from argus.api.http.shapes import Items
from argus.api.http.wiring import Name, PageQuery, ServiceOf
from argus.api.service import Service
from argus.topology.layout import Topology, build

MAX_NODES = 64

BODY = {"type": "object", "properties": {"events": {"type": "array"}}, "required": ["events"]}

Nodes = Annotated[list[str] | None, Query(max_length=MAX_NODES, description="kind:name; may be repeated")]
Seconds = Annotated[float | None, Query(description="Unix seconds")]


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["events"])
    routes.add_api_route(
        "/events",
        post_events,
        methods=["POST"],
        operation_id="post_events",
        dependencies=[TELL],
        response_class=Json,
        openapi_extra={"requestBody": {"required": True, "content": {JSON_TYPE: {"schema": BODY}}}},
    )
    routes.add_api_route(
        "/events",
        list_events,
        methods=["GET"],
        operation_id="list_events",
        dependencies=[READ],
        response_class=Json,
        responses={200: {"model": Items}},
    )
    return routes


async def post_events(request: Request) -> Response:
    """Takes `{"events": [{"time", "node", "source", "text", "kind"?, "value"?}]}`; each is stored once."""
    return await take(request, Service.receive_events, media=JSON_TYPE)


def list_events(
    *,
    service: ServiceOf,
    page: PageQuery,
    node: Nodes = None,
    kind: Name | None = None,
    run: Name | None = None,
    since_s: Seconds = None,
    until_s: Seconds = None,
) -> Response:
    """Events, the latest first; with `run`, each with the ranks of that run that its node stands over."""
    with service.store.read() as connection:
        found = events.list_events(
            connection,
            nodes=node or (),
            kind=kind,
            since_s=since_s,
            until_s=until_s,
            limit=page.limit,
            offset=page.offset,
        )
        layouts = progress.layouts_of(connection, which_attempt(connection, run, None).id) if run else []
    items = _tied(found.items, build(layouts)) if layouts else found.items
    return Json({"items": items, "total": found.total, "limit": page.limit, "offset": page.offset})


def _tied(items: Sequence[Row], topology: Topology) -> list[Row]:
    nodes = {item["node"] for item in items}
    ranks = {node: list(ranks_under(topology, node)) for node in nodes}
    return [{**item, "ranks": ranks[item["node"]]} for item in items]
