"""/mcp: the MCP server behind the service's keys, or how to get it where `mcp` is not installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from anyio import Lock, create_task_group, sleep_forever, to_thread
from anyio.abc import TaskGroup, TaskStatus
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from argus.agent.evidence import Json, ToolResult
from argus.agent.registry import Registry
from argus.api.http.answers import problem, response_to
from argus.api.http.guard import the_guard
from argus.api.http.tools import toolbox_for
from argus.api.toolbox import Toolbox

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

PATH = "/mcp"

MAX_BODY_BYTES = 1 << 18
"""As for a call over REST."""

NO_STREAM = "there is nothing to listen to: each request is answered by itself"
"""MCP lets a server refuse the stream of notifications; ours would stay silent and hold a connection for ever."""

MISSING = "this service has no MCP: pip install 'argus-triage[mcp]' where it runs"


@dataclass(frozen=True, kw_only=True)
class CallersFace:
    """The tools of whoever's request is being served: one server for all projects, each sees its own."""

    registry: Registry
    toolbox: ContextVar[Toolbox] = field(default_factory=lambda: ContextVar("toolbox"))

    def call(self, name: str, args: object) -> ToolResult:
        """One call."""
        return self.toolbox.get().call(name, args)

    def evidence(self, evidence_id: str) -> Json | None:
        """What a tool answered, by id."""
        return self.toolbox.get().evidence(evidence_id)

    def incident(self, incident_id: str) -> Json | None:
        """An incident by id."""
        return self.toolbox.get().incident(incident_id)

    def incidents(self, *, limit: int) -> Sequence[Json]:
        """Incidents, open ones first, then the latest."""
        return self.toolbox.get().incidents(limit=limit)


@dataclass(kw_only=True)
class McpRoute:
    """An ASGI endpoint. What serves behind it is made for the first request: many a service never has one."""

    face: CallersFace
    _app: ASGIApp | None = None
    _tasks: TaskGroup | None = None
    _turn: Lock = field(default_factory=Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request if it bears a key that may read."""
        request = Request(scope)
        try:
            principal = await the_guard(request).admit(request, "read")
        except HTTPException as error:
            await response_to(error)(scope, receive, send)
            return
        if request.method == "GET":
            await problem(405, NO_STREAM, headers={"Allow": "POST"})(scope, receive, send)
            return
        mine = self.face.toolbox.set(toolbox_for(request.state.project, principal))
        try:
            await (await self._served())(scope, receive, send)
        finally:
            self.face.toolbox.reset(mine)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The context in which it serves."""
        try:
            async with create_task_group() as self._tasks:
                yield
                self._tasks.cancel_scope.cancel()
        finally:
            self._app = self._tasks = None

    async def _served(self) -> ASGIApp:
        if find_spec("mcp") is None:
            return problem(501, MISSING)
        if self._tasks is None:
            return problem(503, "the service is not running", headers={"Retry-After": "5"})
        async with self._turn:
            if self._app is None:
                self._app = await self._tasks.start(self._serve)
        return self._app

    async def _serve(self, *, task_status: TaskStatus[ASGIApp]) -> None:
        server, app = await to_thread.run_sync(made, self.face)
        async with server.session_manager.run():
            task_status.started(app)
            await sleep_forever()


def made(face: CallersFace) -> tuple[MCPServer[Any], ASGIApp]:
    """The MCP server and its ASGI application; to import and make them takes most of a second."""
    from mcp.server.transport_security import TransportSecuritySettings

    from argus.api.mcp import mcp_server

    server = mcp_server(face)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        # The guard looks at Host and Origin for every route.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_BODY_BYTES,
    )
    return server, app
