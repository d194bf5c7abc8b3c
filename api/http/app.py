"""The application: routes, key, problems, and the service's life with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.routing import Route

from argus.api import metrics
from argus.api.http import capturing, charts, events, history, intake, observed, page_data, reading, tools
from argus.api.http.answers import Json, add_problem_handlers
from argus.api.http.intake import Gate
from argus.api.http.mcp_route import PATH as MCP_PATH
from argus.api.http.mcp_route import mcp_route
from argus.api.http.pages import add_pages
from argus.api.http.wiring import ServiceOf, require_key
from argus.api.service import Service
from argus.api.toolbox import toolbox_of

API_VERSION = "1"


def make_app(service: Service, *, on_ready: Callable[[], None] = lambda: None) -> FastAPI:
    """The ASGI application; it starts and stops the service's worker."""

    toolbox = toolbox_of(service)
    mcp, mcp_running = mcp_route(toolbox, has_key=bool(service.settings.key))

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
        try:
            async with mcp_running():
                on_ready()
                yield
        finally:
            service.worker.stop()
            service.store.close()

    app = FastAPI(title="Argus", version=API_VERSION, lifespan=life, docs_url=None, redoc_url=None)
    app.state.service = service
    app.state.toolbox = toolbox
    app.state.gate = Gate(room=service.settings.max_uploads)
    app.state.topologies = {}  # of the web page's charts, by project
    add_problem_handlers(app)
    routers = (intake, events, history, page_data, capturing, observed, tools, charts, reading)
    for routes in (module.router() for module in routers):
        app.include_router(routes, dependencies=[Depends(require_key)])
    for path, handler in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", get_metrics)):
        app.add_api_route(path, handler, methods=["GET"], operation_id=handler.__name__, tags=["probes"])
    add_pages(app)
    app.router.routes.append(Route(MCP_PATH, endpoint=mcp))
    return app


def healthz() -> Response:
    """200 while the process answers."""
    return Json({"status": "ok"})


def readyz(*, service: ServiceOf) -> Response:
    """200 while uploads are taken, with the reasons if the analysis is degraded; else 503 with the reasons."""
    obstacles, troubles = service.obstacles(), service.published.troubles_now()
    count, lag_s = service.published.backlog_now()
    body = {
        "status": "unavailable" if obstacles else "degraded" if troubles else "ok",
        "reasons": [*obstacles, *troubles],
        "backlog_windows": count,
        "lag_s": lag_s,
    }
    return Json(body, status_code=503 if obstacles else 200)


def get_metrics(*, service: ServiceOf) -> Response:
    """The service's metrics in Prometheus' text format."""
    return Response(metrics.render(service.metrics), media_type=CONTENT_TYPE_LATEST)
