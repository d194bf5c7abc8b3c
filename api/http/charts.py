"""/v1/runs/…/charts, /v1/fleet, /v1/page: what the web page draws, and what a dashboard of your own may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from argus.analytics.history import OWN
from argus.analytics.store.queries import Which
from argus.api.charts.fleet import drift_page, fleet_page
from argus.api.charts.heat import OWN as ALL_WORK
from argus.api.charts.heat import Span, heat_chart, phase_chart
from argus.api.charts.kernels import kernel_chart
from argus.api.charts.place import map_chart
from argus.api.charts.steps import steps_chart
from argus.api.charts.topologies import Topologies
from argus.api.cluster import cluster_facts, leaves_of
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.guard import READ
from argus.api.http.reading import which_attempt
from argus.api.http.shapes import Document
from argus.api.http.wiring import AttemptQuery, Name, Rank, RunPath, ServiceOf
from argus.collectors.records.layout import MAX_WORLD

MAX_WINDOWS = 240
MAX_ROWS = 1024
MAX_RANKS = 16
"""Ranks shown beside the job: more lines are no chart."""

Upto = Annotated[int | None, Query(ge=0, le=(1 << 53) - 1, description="last window; the latest when absent")]
SinceStep = Annotated[
    int | None,
    Query(
        ge=0, le=(1 << 53) - 1, description="reach back to before this step, with windows left out if need be"
    ),
]
Windows = Annotated[int, Query(ge=1, le=MAX_WINDOWS, description="windows")]
Rows = Annotated[int, Query(ge=1, le=MAX_ROWS, description="rows at most; several ranks share one")]
Ranks = Annotated[list[Rank] | None, Query(max_length=MAX_RANKS)]


def the_topologies(request: Request, *, service: ServiceOf) -> Topologies:
    """The layouts kept of the caller's project."""
    kept: dict[int, Topologies] = request.app.state.topologies
    key = id(service.store)
    if key not in kept:
        kept[key] = Topologies(
            store=service.store,
            live=service.published.runs_now,
            leaves=leaves_of(cluster_facts(service.settings)),
        )
    return kept[key]


TopologiesOf = Annotated[Topologies, Depends(the_topologies)]


def span(*, first_rank: Rank = 0, last_rank: Rank = MAX_WORLD - 1, rows: Rows = 256) -> Span:
    """The ranks asked for."""
    return Span(first=min(first_rank, last_rank), last=last_rank, rows=rows)


SpanOf = Annotated[Span, Depends(span)]


def router() -> APIRouter:
    """The routes; those of runs come before `/runs/{run}`, whose name may hold a slash."""
    routes = APIRouter(prefix="/v1", tags=["charts"], dependencies=[READ])
    table: tuple[tuple[str, Callable[..., Response]], ...] = (
        ("/runs/{run:path}/charts/steps", get_steps_chart),
        ("/runs/{run:path}/charts/heat", get_heat_chart),
        ("/runs/{run:path}/charts/phases", get_phase_chart),
        ("/runs/{run:path}/charts/map", get_map_chart),
        ("/runs/{run:path}/charts/kernels", get_kernel_chart),
        ("/fleet", get_fleet),
        ("/fleet/drift", get_drift),
    )
    for path, handler in table:
        add_read(routes, path, handler=handler, model=Document)
    return routes


def get_steps_chart(
    *,
    service: ServiceOf,
    run: RunPath,
    attempt: AttemptQuery = None,
    rank: Ranks = None,
    windows: Windows = 120,
    upto: Upto = None,
    since_step: SinceStep = None,
) -> Response:
    """Step times window by window, with change points, incidents and marked steps."""
    ranks = tuple(rank or ())
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        chart = steps_chart(connection, which, ranks=ranks, limit=windows, upto=upto, since_step=since_step)
    return Json(chart)


def get_heat_chart(
    *,
    service: ServiceOf,
    topologies: TopologiesOf,
    span: SpanOf,
    run: RunPath,
    attempt: AttemptQuery = None,
    metric: Name = ALL_WORK,
    windows: Windows = 60,
    upto: Upto = None,
) -> Response:
    """Rank × window as base64 bytes, row by row: 128 = as expected, 255 = twice as long, 1 = half, 0 = not seen.

    `metric` is `own`, `step` or the name of a phase. Of the ranks that share a row the one that deviates most counts.
    """
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        if (topology := topologies.of(which)) is None:
            return _no_layout(which)
        chart = heat_chart(connection, which, topology, metric=metric, span=span, limit=windows, upto=upto)
    return Json(chart)


def get_phase_chart(
    *,
    service: ServiceOf,
    topologies: TopologiesOf,
    span: SpanOf,
    run: RunPath,
    attempt: AttemptQuery = None,
    window: Upto = None,
) -> Response:
    """Rank × phase of one window, coded as the heat chart."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        if (topology := topologies.of(which)) is None:
            return _no_layout(which)
        chart = phase_chart(connection, which, topology, window=window, span=span)
    return Json(chart) if chart else _nothing(which, "No window was analysed yet.")


def get_map_chart(
    *,
    service: ServiceOf,
    topologies: TopologiesOf,
    run: RunPath,
    attempt: AttemptQuery = None,
    window: Upto = None,
) -> Response:
    """Where each rank is, and how its own work stands beside its peers' in a window."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        if (topology := topologies.of(which)) is None:
            return _no_layout(which)
        return Json(map_chart(connection, which, topology, leaves=topologies.leaves, window=window))


def get_kernel_chart(
    *,
    service: ServiceOf,
    topologies: TopologiesOf,
    run: RunPath,
    rank: Annotated[list[Rank], Query(min_length=1, max_length=4)],
    attempt: AttemptQuery = None,
    upto: Upto = None,
) -> Response:
    """Distributions of the costliest kernels of some ranks against their peers."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        if (topology := topologies.of(which)) is None:
            return _no_layout(which)
        if any(not 0 <= one < topology.world_size for one in rank):
            raise not_found(f"run {run!r} has ranks 0 to {topology.world_size - 1}")
        chart = kernel_chart(connection, which, topology, ranks=tuple(rank), upto=upto)
    return (
        Json(chart)
        if chart
        else _nothing(which, "No kernel summaries came in, or they are not kept any more.")
    )


def get_fleet(
    *, service: ServiceOf, limit: Annotated[int, Query(ge=1, le=100, description="runs")] = 30
) -> Response:
    """Runs with coverage, overhead and what is off, the one heard of last first."""
    with service.store.read() as connection:
        page = fleet_page(connection, limit=limit)
    return Json({**page, "now_s": service.clock()})


def get_drift(
    *,
    service: ServiceOf,
    days: Annotated[int, Query(ge=4, le=365)] = 28,
    limit: Annotated[int, Query(ge=1, le=32, description="GPUs")] = 8,
    subject: Name = OWN,
) -> Response:
    """GPUs that rose most over the days: own time over that of ranks doing the same work."""
    with service.store.read() as connection:
        page = drift_page(connection, now_s=service.clock(), num_days=days, limit=limit, subject=subject)
    return Json(page)


def _no_layout(which: Which) -> Response:
    return _nothing(which, "No layout record came in yet.")


def _nothing(which: Which, note: str) -> Response:
    """The run is there, what the chart would show is not: no error, so the page has none to tell."""
    return Json({"run": which.run, "attempt": which.attempt, "note": note})
