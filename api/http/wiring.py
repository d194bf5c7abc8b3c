"""What every route needs: the service, a bounded body, a page of a list."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Query, Request
from pydantic import AfterValidator, Field
from starlette.types import Scope

from argus.api.http.guard import the_service
from argus.api.service import Service
from argus.collectors.records.layout import MAX_WORLD

MAX_PAGE = 1000
MAX_INDEX = (1 << 53) - 1
"""Largest window or offset: exact in every JSON reader, and far inside every database's integer."""


async def read_body(request: Request, *, limit: int) -> bytes:
    """The body; 413 as soon as it is known to exceed `limit` bytes."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:19]) > limit:
        raise HTTPException(413, f"body of {announced[:19]} bytes, the limit is {limit}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"body of more than {limit} bytes")
    return bytes(body)


SLASH, NO_NAME = "\x1f", "\x1e"
"""The one stands in a decoded path for a slash that was sent encoded: that one is part of a name. No name of ours has
either; the other stands for the first, should that be sent."""

_SIGNS = re.compile("%([12])f", re.IGNORECASE)


def named_path(scope: Scope) -> str:
    """The path of a request in which a run `x/report` differs from the report of a run `x`."""
    raw: bytes = scope.get("raw_path") or b""
    text = raw.partition(b"?")[0].decode("ascii", "replace")
    found = _SIGNS.sub(lambda sign: SLASH if sign[1] == "2" else NO_NAME, text)
    return str(scope["path"]) if found == text else urllib.parse.unquote(found)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable text")
    return text


def _name(text: str) -> str:
    return _printable(text.replace(SLASH, "/"))


@dataclass(frozen=True, kw_only=True)
class Page:
    """A part of a list."""

    limit: int
    offset: int


def page(
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="items to return")] = 100,
    offset: Annotated[int, Query(ge=0, le=MAX_INDEX, description="items to skip")] = 0,
) -> Page:
    """The part asked for."""
    return Page(limit=limit, offset=offset)


Name = Annotated[str, Query(max_length=256), AfterValidator(_printable)]
RunPath = Annotated[str, Path(max_length=256, description="run name"), AfterValidator(_name)]
HostPath = Annotated[str, Path(max_length=256, description="host name"), AfterValidator(_name)]
IdPath = Annotated[str, Path(max_length=64), AfterValidator(_name)]
Rank = Annotated[int, Field(ge=0, lt=MAX_WORLD)]
WindowPath = Annotated[int, Path(ge=0, le=MAX_INDEX)]
AttemptQuery = Annotated[
    int | None, Query(ge=0, le=(1 << 31) - 1, description="attempt; the latest when absent")
]
WindowQuery = Annotated[int | None, Query(ge=0, le=MAX_INDEX)]
PageQuery = Annotated[Page, Depends(page)]
ServiceOf = Annotated[Service, Depends(the_service)]
