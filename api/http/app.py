"""The application: routes, keys, problems, and the service's life with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from types import ModuleType

from fastapi import APIRouter, FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from argus.agent.wording import counted
from argus.api import metrics
from argus.api.auditing import Auditor
from argus.api.companions import companions_of
from argus.api.http import (
    approvals,
    asking,
    capturing,
    charts,
    chat,
    events,
    facade,
    history,
    intake,
    investigations,
    keys,
    observed,
    outcomes,
    page_data,
    reading,
    records,
    session,
    silences,
    slack,
    tools,
    webhooks,
)
from argus.api.http.answers import Json, add_problem_handlers
from argus.api.http.connections import Crowding
from argus.api.http.frame import Frame
from argus.api.http.guard import READ, Guard, the_service
from argus.api.http.mcp_route import PATH as MCP_PATH
from argus.api.http.mcp_route import CallersFace, McpRoute
from argus.api.http.openapi import add_openapi
from argus.api.http.pages import add_pages
from argus.api.http.shapes import Document
from argus.api.keyring import Keyring
from argus.api.keys import is_loopback
from argus.api.masking import secrets_of
from argus.api.projects import Projects
from argus.api.service import Service

API_VERSION = "1"

ROUTERS: tuple[ModuleType, ...] = (
    intake,
    events,
    history,
    page_data,
    capturing,
    observed,
    tools,
    session,
    keys,
    records,
    charts,
    asking,
    chat,
    facade,
    investigations,
    approvals,
    silences,
    outcomes,
    webhooks,
    slack,
    reading,  # last: a run's name may hold a slash
)
"""Modules whose `router()` is served; every route says its scope, see `guard`."""


def make_app(
    service: Service, *, on_ready: Callable[[], None] = lambda: None, projects: Projects | None = None
) -> FastAPI:
    """The ASGI application; it starts and stops the projects' workers. `service` is the default project's."""
    served = projects or Projects(root=service, companions_of=companions_of)
    mcp = McpRoute(face=CallersFace(registry=served.default.toolbox.registry))

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        served.start()
        try:
            async with mcp.running():
                on_ready()
                yield
        finally:
            served.stop()

    app = FastAPI(title="Argus", version=API_VERSION, lifespan=life, docs_url=None, redoc_url=None)
    app.state.guard = make_guard(service, served)
    app.state.gates = {}
    app.state.crowding = Crowding()
    app.state.topologies = {}  # of the web page's charts, by project
    add_problem_handlers(app)
    app.router.routes += shared_routes()
    app.router.routes.append(Route(MCP_PATH, endpoint=mcp))
    app.add_middleware(intake.Door, routes=intake.door_routes(app.router.routes))
    app.add_middleware(Frame, auditor=make_auditor(service), max_upload_bytes=service.settings.max_body_bytes)
    add_openapi(app)
    return app


@cache
def shared_routes() -> tuple[BaseRoute, ...]:
    """The routes of every router, made once: what they serve they find in the request, so applications share them.

    Flat, so that every route can be looked at: see `guard.needs_of`.
    """
    own = APIRouter()
    add_probes(own)
    add_pages(own)
    return (*(route for module in ROUTERS for route in module.router().routes), *own.routes)


def add_probes(routes: APIRouter) -> None:
    """What watches the service asks."""
    for path, handler in (("/healthz", healthz), ("/readyz", readyz)):
        routes.add_api_route(
            path,
            handler,
            methods=["GET"],
            operation_id=handler.__name__,
            tags=["probes"],
            responses={200: {"model": Document}, 503: {"model": Document}},
        )
    routes.add_api_route(
        "/metrics",
        get_metrics,
        methods=["GET"],
        operation_id="get_metrics",
        tags=["probes"],
        dependencies=[READ],
        response_class=PlainTextResponse,
    )


def make_guard(service: Service, projects: Projects) -> Guard:
    """What stands before the routes; the keys are those of the default project's database."""
    settings = service.settings
    keyring = Keyring(
        store=service.store,
        bootstrap=settings.key,
        is_exposed=not is_loopback(settings.host),
        clock=service.clock,
    )
    return Guard(
        keyring=keyring,
        projects=projects,
        max_requests_s=settings.max_requests_s,
        max_ingest_s=settings.max_ingest_s,
    )


def make_auditor(service: Service) -> Auditor:
    """Writes into the default project's database."""
    return Auditor(
        store=service.store,
        clock=service.clock,
        keep_s=service.settings.keep_audit_s,
        secrets=secrets_of(service.settings),
    )


async def healthz() -> Response:
    """200 while the process answers: on the event loop, so that no crowd of slow requests keeps it waiting."""
    return Json({"status": "ok"})


def readyz(request: Request) -> Response:
    """200 while uploads are taken, with the reasons if something is degraded; else 503 with the reasons.

    Probes bear no key: where one is needed, what happens in a project is told without its names.
    """
    guard: Guard = request.app.state.guard
    root = guard.projects.root
    obstacles = root.obstacles()
    crowded = request.app.state.crowding.told()
    troubles = [*_troubles(guard), *([crowded] if crowded else [])]
    count, lag_s = root.published.backlog_now()
    body = {
        "status": "unavailable" if obstacles else "degraded" if troubles else "ok",
        "reasons": [*obstacles, *troubles],
        "backlog_windows": count,
        "lag_s": lag_s,
    }
    return Json(body, status_code=503 if obstacles else 200)


def _troubles(guard: Guard) -> list[str]:
    services = [project.service for project in guard.projects.opened()]
    told = [trouble for service in services for trouble in service.published.troubles_now()]
    told += [reason for service in services[1:] for reason in service.obstacles()]
    if not told or guard.keyring.is_known_open():
        return told
    return [
        f"in trouble: {counted(len(told), 'things')} in {counted(len(services), 'projects')}; the log says which"
    ]


def get_metrics(request: Request) -> Response:
    """The metrics of the caller's project in Prometheus' text format."""
    return Response(metrics.render(the_service(request).metrics), media_type=CONTENT_TYPE_LATEST)
