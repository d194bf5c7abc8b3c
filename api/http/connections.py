"""Connections that cost something and bring nothing: closed after their time, and only so many at once.

uvicorn waits without end for the head of a first request, so ten thousand silent sockets would be all it holds.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LOG = logging.getLogger(__name__)

HEAD_TIMEOUT_S = 10.0
"""How long the head of a request may take to arrive, from the connection's begin or its first byte on."""

KEEP_ALIVE_S = 15
HEAD_BYTES = 16 << 10
"""Largest head of a request."""

DEAD_S = 60
"""A peer that acknowledges nothing for so long is gone: the kernel then closes the connection."""

TOLD_S = 60.0
"""How long a crowd is told of after it was met last."""

SPARE_FILES = 512
"""File descriptors beside those of connections: databases, spools, the model's endpoint."""


class Crowding:
    """Remembers when there was no room for one more connection: said in the log once a minute, and in /readyz."""

    def __init__(self, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._noted_s = self._logged_s = float("-inf")
        self._most = 0

    def note(self, most: int) -> None:
        """All `most` places were taken."""
        self._noted_s, self._most = self._ticks(), most
        if self._noted_s - self._logged_s >= TOLD_S:
            self._logged_s = self._noted_s
            LOG.warning("%s", self.told())

    def told(self) -> str:
        """What there is to say of the last minute, "" if nothing."""
        if self._ticks() - self._noted_s >= TOLD_S:
            return ""
        return f"all {self._most} connections are taken: those silent for longest are closed for new ones"


def listening(listener: socket.socket, *, dead_s: int = DEAD_S) -> None:
    """Have the kernel find out about half-open connections; accepted ones inherit it from their listener.

    So it is with a peer that does not read: what it was sent is not acknowledged either.
    """
    options = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, dead_s),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(dead_s // 4, 1)),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_s * 1000),
    )
    for level, name, value in options:
        listener.setsockopt(level, name, value)


def room_for(connections: int) -> int:
    """Raise the limit on open files so that so many connections fit; how many do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return connections if soft == resource.RLIM_INFINITY else max(min(connections, soft - SPARE_FILES), 16)


class Impatient(HttpToolsProtocol):
    """HTTP on one connection of at most `max_connections`, gone if no request comes within `head_timeout_s`.

    The parser is C (httptools): a thousand hosts' heartbeats are mostly heads. It has no bound of its own on them.

    `silent` are those of a server that wait for the head of a request, the oldest first: where all places are
    taken, a newcomer gets the place of the one that was silent longest.
    """

    max_connections = 8192
    head_timeout_s = HEAD_TIMEOUT_S
    silent: ClassVar[dict[Impatient, None]] = {}
    crowding = Crowding()
    _head_timer: asyncio.TimerHandle | None = None
    _is_in_head = _is_refused = False
    _num_bytes = 0
    """Read since the last request ended, as far as whole reads tell."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        if len(self.connections) >= self.max_connections:
            self.crowding.note(self.max_connections)
            if not self._make_room():
                self.transport = transport
                transport.abort()
                return
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        if self._head_timer is None and not self._is_answering():
            self._wait_for_head()
        self._num_bytes += len(data)
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._is_in_head and self._num_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"the head of a request may have {HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._is_in_head = False
        names = {name for name, _ in self.headers}
        if self.parser.should_upgrade() and names & {b"content-length", b"transfer-encoding"}:
            self._is_refused = True  # the parser would not read the body, and it would look empty
            self.send_400_response(
                "no other protocol is spoken here: send the body without an Upgrade header"
            )
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Part of its body."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Its body is, too."""
        self._num_bytes = 0
        if not self._is_refused:
            super().on_message_complete()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> bool:
        """Close the connection that has been silent longest; False if none is."""
        oldest = next(iter(self.silent), None)
        if oldest is None:
            return False
        self.connections.discard(oldest)
        oldest._give_up()
        return True

    def _wait_for_head(self) -> None:
        self.silent[self] = None
        self._head_timer = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _stop_waiting(self) -> None:
        self.silent.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._stop_waiting()
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.abort()


def protocol_of(
    *, max_connections: int, head_timeout_s: float = HEAD_TIMEOUT_S, crowding: Crowding | None = None
) -> type[Impatient]:
    """What speaks HTTP on the connections of one server."""
    limits = {
        "max_connections": max_connections,
        "head_timeout_s": head_timeout_s,
        "silent": {},
        "crowding": crowding or Crowding(),
    }
    return type("Impatient", (Impatient,), limits)
