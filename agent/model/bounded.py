"""An endpoint's answers are read up to a size, whatever it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from argus.agent.model.message import ModelError

MAX_BYTES = 8 << 20
"""Unpacked bytes of an answer in one piece, a list of models or an error's page: a reply that is kept takes a tenth."""

MAX_STREAM_BYTES = 32 << 20
"""Of a streamed one, each few characters of which come in a message of their own."""

STREAM = "text/event-stream"


class Response(Protocol):
    """What is needed of the response of an HTTP client."""

    aiter_bytes: Callable[..., AsyncIterator[bytes]]

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, whose names have no case."""


async def bound(response: Response) -> None:
    """Have the body break off beyond the limit: who reads it then gets a ModelError."""
    read = response.aiter_bytes
    is_stream = response.headers.get("content-type", "").startswith(STREAM)
    max_bytes = MAX_STREAM_BYTES if is_stream else MAX_BYTES

    async def read_on(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        num_bytes = 0
        async for chunk in read(chunk_size):
            num_bytes += len(chunk)
            if num_bytes > max_bytes:
                raise ModelError("not_an_api", f"the endpoint's answer is longer than {max_bytes >> 20} MiB")
            yield chunk

    response.aiter_bytes = read_on
