"""Answers made while somebody waits, whole or as server-sent events; the end of the service breaks them off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from starlette.responses import StreamingResponse

from argus.analytics.store.documents import dump

T = TypeVar("T")

LOG = logging.getLogger("argus.http")

KEEP_ALIVE_S = 15.0
"""A comment after so long without an event: proxies close what is silent."""

GLANCE_S = 0.5
"""How long an answer under way may hold up the end of the service."""

STOPPED = "the service is being stopped: ask again in a moment"

ENDING = (
    "error",
    {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": STOPPED},
)
"""The last event of a stream that the service's end breaks off."""

MAX_STREAMS = 256
"""Streams of one process; each costs a look at the database a second."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA = "text/event-stream"
CONTENT: dict[str, dict[str, object]] = {
    MEDIA: {
        "schema": {
            "type": "object",
            "description": "Each event of the stream; `data` is JSON.",
            "properties": {name: {"type": "string"} for name in ("event", "data", "id")},
            "required": ["event", "data"],
        }
    }
}
"""How a stream is described: by what each of its events is."""


class Stopped(Exception):
    """The service ends: what was under way is given up."""


Push = Callable[[str, object], None]
"""Tells the reader (event, data)."""


def event(name: str, data: object, *, id: int | None = None) -> bytes:
    r"""One event on the wire.

    >>> event("step", {"text": "a\nb"}, id=3)
    b'event: step\nid: 3\ndata: {"text":"a\\nb"}\n\n'
    """
    number = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{number}data: {dump(data)}\n\n".encode()


def streamed(body: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer."""
    return StreamingResponse(body, media_type=MEDIA, headers=HEADERS)


def _end_of(task: asyncio.Future[tuple[str, object]]) -> tuple[str, object]:
    """What the work returned; an error that cannot be an answer's status any more is the last event."""
    error = task.exception()
    if error is None:
        return task.result()
    LOG.error("a stream broke off", exc_info=error)
    told = {"type": "about:blank", "title": "Internal Server Error", "status": 500}
    return "error", {**told, "detail": f"it broke off: {type(error).__name__}"}


async def live(
    work: Callable[[Push], Awaitable[tuple[str, object]]], *, is_over: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """What `work` pushes while it works, then what it returns; it ends with whoever reads.

    Once `is_over` says that the service ends, the work is given up and the last event says so.
    """
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    def push(name: str, data: object) -> None:
        queue.put_nowait(event(name, data))

    task = asyncio.ensure_future(work(push))
    getting: asyncio.Future[bytes] | None = None
    quiet_s = 0.0
    try:
        while not (task.done() and queue.empty()):
            getting = asyncio.ensure_future(queue.get())
            await asyncio.wait({task, getting}, timeout=GLANCE_S, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                quiet_s = 0.0
                yield getting.result()
                continue
            getting.cancel()
            if is_over():
                break
            quiet_s += GLANCE_S
            if quiet_s >= KEEP_ALIVE_S:
                quiet_s = 0.0
                yield b": waiting\n\n"
        yield event(*(_end_of(task) if task.done() else ENDING))
    finally:  # also where the reader has gone
        task.cancel()
        if getting is not None:
            getting.cancel()


async def whole(work: Awaitable[T], *, is_over: Callable[[], bool]) -> T:
    """What `work` returns, without a stream. Raises Stopped once `is_over` says that the service ends."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=GLANCE_S)
            if not task.done() and is_over():
                raise Stopped(STOPPED)
        return task.result()
    finally:
        task.cancel()
