"""/v1/webhooks/…: alerts of Alertmanager and Grafana, taken once each and answered at once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from argus.api import webhooks
from argus.api.desk import Desk
from argus.api.http.answers import Json, problem
from argus.api.http.desk import DeskOf
from argus.api.http.guard import INVESTIGATE
from argus.api.http.shapes import Document
from argus.api.http.wiring import ServiceOf
from argus.api.service import Service
from argus.api.webhooks import SOURCES, NoAlerts


def router() -> APIRouter:
    """One route a source; they send the same form."""
    routes = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], dependencies=[INVESTIGATE])
    for source in SOURCES:
        routes.add_api_route(
            f"/{source}",
            _handler(source),
            methods=["POST"],
            status_code=202,
            operation_id=f"webhook_{source}",
            summary=f"Alerts of {source.capitalize()}, each taken once",
            response_class=Json,
            responses={202: {"model": Document}},
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"type": "object"}}},
                }
            },
        )
    return routes


def _handler(source: str) -> Callable[..., Awaitable[Response]]:
    async def take(request: Request, *, service: ServiceOf, desk: DeskOf) -> Response:
        try:
            raw = json.loads(await request.body())
        except (ValueError, RecursionError):
            return problem(400, "the body must be JSON")
        try:
            answer = await to_thread.run_sync(_taken, service, desk, source, raw)
        except NoAlerts as error:
            return problem(422, str(error))
        return Json(answer, status_code=202)

    return take


def _taken(service: Service, desk: Desk, source: str, raw: object) -> dict[str, object]:
    return webhooks.take(service, desk.runner, source=source, raw=raw)
