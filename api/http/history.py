"""/v1/history: GPUs day by day, and those that were bad in run after run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from argus.analytics.history import DAY_S, day_of
from argus.analytics.store import history
from argus.api.http.answers import add_read
from argus.api.http.guard import READ
from argus.api.http.reading import page_of
from argus.api.http.shapes import Items
from argus.api.http.wiring import Name, PageQuery, ServiceOf

Days = Annotated[int, Query(ge=1, le=3660, description="days back")]


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/history", tags=["history"], dependencies=[READ])
    table: tuple[tuple[str, Callable[..., Response], type[BaseModel]], ...] = (
        ("", list_history, Items),
        ("/offenders", list_offenders, Items),
    )
    for path, handler, model in table:
        add_read(routes, path, handler=handler, model=model)
    return routes


def list_history(
    *,
    service: ServiceOf,
    page: PageQuery,
    host: Name | None = None,
    device: Name | None = None,
    subject: Name | None = None,
    days: Days = 90,
) -> Response:
    """Own time over that of ranks doing the same work, per day, GPU and phase (`phase:forward`), kernel kind
    (`kernel:GEMM`) or all own work (`own`); the latest day first."""
    since_day = day_of(service.clock()) - days
    with service.store.read() as connection:
        found = history.list_days(
            connection,
            host=host,
            device=device,
            subject=subject,
            since_day=since_day,
            limit=page.limit,
            offset=page.offset,
        )
    return page_of(found, page)


def list_offenders(*, service: ServiceOf, page: PageQuery, days: Days = 90) -> Response:
    """GPUs that were suspected, those of most runs first: how many runs, bouts and bad windows."""
    since_s = service.clock() - days * DAY_S
    with service.store.read() as connection:
        found = history.offenders(connection, since_s=since_s, limit=page.limit, offset=page.offset)
    return page_of(found, page)
