"""/mcp: the MCP server behind the service's key, or how to get it where `mcp` is not installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from argus.api.http.answers import problem, response_to
from argus.api.http.wiring import require_key
from argus.api.toolbox import Toolbox

PATH = "/mcp"

MAX_BODY_BYTES = 1 << 18
"""As for a call over REST."""

MISSING = "this service has no MCP: pip install 'argus-triage[mcp]' where it runs"


@dataclass(frozen=True, kw_only=True)
class McpRoute:
    """An ASGI endpoint; `app` is None where `mcp` is not installed."""

    app: ASGIApp | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request if it bears the key."""
        try:
            require_key(Request(scope))
        except HTTPException as error:
            await response_to(error)(scope, receive, send)
            return
        served = self.app or problem(501, MISSING)
        await served(scope, receive, send)


Running = Callable[[], AbstractAsyncContextManager[None]]


def mcp_route(toolbox: Toolbox, *, has_key: bool) -> tuple[McpRoute, Running]:
    """The endpoint, and the context in which it serves."""
    if find_spec("mcp") is None:
        return McpRoute(app=None), nullcontext
    from mcp.server.transport_security import TransportSecuritySettings

    from argus.api.mcp import mcp_server

    server = mcp_server(toolbox)
    # Without a key only this machine may ask, and a page in its browser is not this machine.
    security = None if not has_key else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        transport_security=security,
        max_request_body_size=MAX_BODY_BYTES,
    )
    return McpRoute(app=app), server.session_manager.run
