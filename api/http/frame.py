"""What surrounds every request: a bounded body, safe headers, and the audit of what was asked."""

from __future__ import annotations

import time
from asyncio import timeout
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from anyio import to_thread
from fastapi import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from argus.analytics.store.audit import Deed
from argus.analytics.store.projects import DEFAULT
from argus.api.auditing import Auditor
from argus.api.http.guard import SAFE_METHODS, needs_of
from argus.api.http.limits import Buckets
from argus.api.http.wiring import SLASH, named_path
from argus.api.keys import Principal

MAX_BODY_BYTES = 1 << 20
"""Of a request that uploads nothing: a diagnosis with every claim is some 10 kB."""

BODY_TIMEOUT_S = 30.0
"""How long a body may take to arrive: a slow sender must not hold what others wait for."""

UPLOADS = ("/v1/ingest/", "/v1/captures/", "/v1/events")

DENIED = frozenset({401, 403, 421, 429})

HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Unless the answer says otherwise."""

RAW_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())


@dataclass(kw_only=True)
class Frame:
    """Middleware around the application."""

    app: ASGIApp = field(kw_only=False)
    auditor: Auditor
    max_upload_bytes: int
    ticks: Callable[[], float] = time.monotonic
    denials: Buckets = field(init=False)

    def __post_init__(self) -> None:
        # Ten denials of an address at once, then one in ten seconds: more say nothing new.
        self.denials = Buckets(per_s=0.1, ticks=self.ticks, burst_s=100.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})
        scope["path"] = named_path(scope)
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                told_already = {name for name, _ in message["headers"]}
                more = [pair for pair in RAW_HEADERS if pair[0] not in told_already]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        limit = self.max_upload_bytes if scope["path"].startswith(UPLOADS) else MAX_BODY_BYTES
        try:
            await self.app(scope, bounded(receive, limit=limit), told)
        except ClientDisconnect:
            pass  # it went in the middle of its body: nobody is left to be answered
        finally:
            await self._note(scope, status)

    async def _note(self, scope: Scope, status: int) -> None:
        state: MutableMapping[str, Any] = scope["state"]
        principal: Principal | None = state.get("principal")
        address = (scope.get("client") or ("",))[0]
        if state.get("is_audited") or not self._is_worth_it(scope, status, address):
            return
        action = getattr(scope.get("route"), "operation_id", None) or scope["method"].lower()
        deed = Deed(
            project=principal.project if principal else DEFAULT,
            who=principal.who if principal else "nobody",
            action=action,
            target=f"{scope['method']} {scope['path'].replace(SLASH, '%2F')}",
            outcome=_outcome(status),
            address=address,
        )
        await to_thread.run_sync(self.auditor.note, deed)

    def _is_worth_it(self, scope: Scope, status: int, address: str) -> bool:
        """Denials, and what changes something: reading by POST (tools) and ingest are not audited."""
        if status in DENIED:
            return not self.denials.wait_s(address)
        route = scope.get("route")
        if route is None or scope["method"] in SAFE_METHODS:
            return False
        needs = set(needs_of(route))
        return not needs or bool(needs - {"read", "ingest", "ingest|investigate"})


def _outcome(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return "no answer"


def bounded(receive: Receive, *, limit: int) -> Receive:
    """The body's parts; HTTPException 413 beyond `limit` bytes, 408 if it does not come in time."""
    num_bytes, is_whole, left_s = 0, False, BODY_TIMEOUT_S

    async def part() -> Message:
        nonlocal num_bytes, is_whole, left_s
        if is_whole:
            return await receive()  # waits for the client to go
        before_s = time.monotonic()
        try:
            async with timeout(max(left_s, 0.0)):  # not anyio's, which takes twice as long
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s") from None
        left_s -= time.monotonic() - before_s
        num_bytes += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if num_bytes > limit:
            raise HTTPException(413, f"body of more than {limit} bytes")
        return message

    return part
