"""MCP on stdin and stdout to the end: what was asked before stdin closed is answered before the server ends."""

from __future__ import annotations

from typing import Any

from anyio import EndOfStream, Event, move_on_after
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

ANSWER_S = 120.0
"""How long answers are waited for once nothing more is asked: a tool over HTTP takes half a minute at the most."""

CANCELLED, LISTEN = "notifications/cancelled", "subscriptions/listen"
"""What takes a request back, and the one request whose answer comes when nobody listens any more."""


class Unanswered:
    """The requests that have no answer yet, by id."""

    def __init__(self) -> None:
        self._ids: set[object] = set()
        self._changed = Event()

    def hear(self, message: object) -> None:
        """A message of the client; one that it cancels gets no answer."""
        if isinstance(message, JSONRPCRequest) and message.method != LISTEN:
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._drop((message.params or {}).get("requestId"))

    def say(self, message: object) -> None:
        """A message of the server."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._drop(message.id)

    async def over(self, *, within_s: float = ANSWER_S) -> None:
        """Wait until all is answered, at most so long."""
        with move_on_after(within_s):
            while self._ids:
                await self._changed.wait()

    def _drop(self, request_id: object) -> None:
        self._ids -= {request_id} if isinstance(request_id, str | int) else set()
        self._changed.set()
        self._changed = Event()


class Heard(ObjectReceiveStream[SessionMessage | Exception]):
    """The client's messages; they end once all of them are answered."""

    def __init__(self, inner: Any, unanswered: Unanswered) -> None:
        self._inner, self._unanswered = inner, unanswered

    @property
    def last_context(self) -> object:
        """Of whoever sent the last one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or why there is none on a line. Raises EndOfStream."""
        try:
            item: SessionMessage | Exception = await self._inner.receive()
        except EndOfStream:
            await self._unanswered.over()
            raise
        if isinstance(item, SessionMessage):
            self._unanswered.hear(item.message)
        return item

    async def aclose(self) -> None:
        """Hear no more."""
        await self._inner.aclose()


class Said(ObjectSendStream[SessionMessage]):
    """Where the server's messages go."""

    def __init__(self, inner: Any, unanswered: Unanswered) -> None:
        self._inner, self._unanswered = inner, unanswered

    async def send(self, item: SessionMessage, /) -> None:
        """One message."""
        await self._inner.send(item)
        self._unanswered.say(item.message)

    async def aclose(self) -> None:
        """Say no more."""
        await self._inner.aclose()
