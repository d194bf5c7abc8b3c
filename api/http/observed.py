"""/v1/…: what hosts saw besides the ranks' own words, how they are, and their switch."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from argus.analytics.store import observations
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.guard import APPROVE, READ
from argus.api.http.reading import MAX_SERIES_RANKS, page_of, which_attempt
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import AttemptQuery, HostPath, PageQuery, Rank, RunPath, ServiceOf
from argus.api.status import run_status

Ranks = Annotated[list[Rank] | None, Query(max_length=MAX_SERIES_RANKS, description="ranks; all when absent")]


class Switch(BaseModel):
    """Whether the run is observed."""

    model_config = {"extra": "forbid", "strict": True}
    off: bool


class Reason(StrEnum):
    """Why a dump was taken."""

    BASELINE = "baseline"
    SLOW_STEP = "slow_step"
    PEER = "peer"
    BURST = "burst"


def router() -> APIRouter:
    """The routes; they come before `/runs/{run}`, whose name may hold a slash."""
    routes = APIRouter(prefix="/v1", tags=["observed"], dependencies=[READ])
    routes.add_api_route(
        "/runs/{run:path}/switch",
        put_switch,
        methods=["PUT"],
        operation_id="put_switch",
        dependencies=[APPROVE],
        response_class=Json,
        responses={200: {"model": Switch}},
    )
    table: tuple[tuple[str, Callable[..., Response], type[BaseModel]], ...] = (
        ("/runs/{run:path}/stacks", list_stacks, Items),
        ("/runs/{run:path}/status", get_status, Document),
        ("/hosts/{host:path}/samples", list_samples, Items),
    )
    for path, handler, model in table:
        add_read(routes, path, handler=handler, model=model)
    return routes


def list_stacks(
    *,
    service: ServiceOf,
    run: RunPath,
    page: PageQuery,
    attempt: AttemptQuery = None,
    rank: Ranks = None,
    reason: Reason | None = None,
) -> Response:
    """Stack dumps, the latest first: each thread with its state and its folded stack, outermost frame first."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        found = observations.stacks(
            connection, which.id, ranks=rank or (), reason=reason, limit=page.limit, offset=page.offset
        )
    return page_of(found, page)


def get_status(*, service: ServiceOf, run: RunPath, attempt: AttemptQuery = None) -> Response:
    """What each host, rank and part sees, what was lost, whether the run is switched off."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        mixed = service.published.mixed_now(which.id)
        return Json(run_status(connection, which, now_s=service.clock(), mixed=mixed))


def put_switch(*, service: ServiceOf, run: RunPath, switch: Switch) -> Response:
    """Switch the collection of a run off or on; its hosts follow within seconds."""
    with service.store.read() as connection:
        which_attempt(connection, run, None)
    service.switch(run, is_off=switch.off)
    return Json({"off": switch.off})


def list_samples(*, service: ServiceOf, host: HostPath, page: PageQuery) -> Response:
    """What a host measured of itself, the latest sample first."""
    with service.store.read() as connection:
        found = observations.samples(connection, host, limit=page.limit, offset=page.offset)
    if not found.total:
        raise not_found(f"no sample of host {host!r}")
    return page_of(found, page)
