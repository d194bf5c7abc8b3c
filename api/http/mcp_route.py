"""/mcp: the MCP server behind the service's keys, or how to get it where `mcp` is not installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from argus.agent.evidence import Json, ToolResult
from argus.agent.registry import Registry
from argus.api.http.answers import problem, response_to
from argus.api.http.guard import the_guard
from argus.api.http.tools import toolbox_for
from argus.api.toolbox import Toolbox

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


@dataclass(frozen=True, kw_only=True)
class McpRoute:
    """An ASGI endpoint; `app` is None where `mcp` is not installed."""

    app: ASGIApp | None
    face: CallersFace

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
            await (self.app or problem(501, MISSING))(scope, receive, send)
        finally:
            self.face.toolbox.reset(mine)


Running = Callable[[], AbstractAsyncContextManager[None]]


def mcp_route(registry: Registry) -> tuple[McpRoute, Running]:
    """The endpoint, and the context in which it serves."""
    face = CallersFace(registry=registry)
    if find_spec("mcp") is None:
        return McpRoute(app=None, face=face), nullcontext
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
    return McpRoute(app=app, face=face), server.session_manager.run
