"""GET /v1/…: runs, topology, windows, findings, incidents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from sqlalchemy import Connection
from starlette.responses import Response

from argus.analytics.store import progress, queries
from argus.analytics.store.queries import Found, Which
from argus.api.facts import stored_facts
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.guard import READ
from argus.api.http.shapes import (
    Document,
    Finding,
    Incident,
    IncidentStatus,
    Items,
    Level,
    ListOf,
    WindowItem,
    WindowStatus,
)
from argus.api.http.wiring import (
    MAX_PAGE,
    AttemptQuery,
    IdPath,
    Name,
    Page,
    PageQuery,
    Rank,
    RunPath,
    ServiceOf,
    WindowPath,
    WindowQuery,
)
from argus.api.losses import losses_json, stored_losses
from argus.topology.export import topology_to_json
from argus.topology.layout import build

MAX_SERIES_RANKS = 64
"""Ranks of one series: what a chart can show."""


def router() -> APIRouter:
    """The reading routes; an operation's id is the name of its function."""
    routes = APIRouter(prefix="/v1", dependencies=[READ])
    table: tuple[tuple[str, Callable[..., Response], type[BaseModel]], ...] = (
        ("/runs", list_runs, Items),
        ("/runs/{run}/topology", get_topology, Document),
        ("/runs/{run}/facts", get_facts, Document),
        ("/runs/{run}/report", get_report, Document),
        ("/runs/{run}/heartbeats", list_heartbeats, Items),
        ("/runs/{run}/windows", list_windows, ListOf[WindowItem]),
        ("/runs/{run}/windows/{window}", get_window, WindowItem),
        ("/runs/{run}/series", get_series, Document),
        ("/runs/{run}/findings", list_run_findings, ListOf[Finding]),
        ("/runs/{run}", get_run, Document),  # last: a run's name may hold a slash
        ("/incidents", list_incidents, ListOf[Incident]),
        ("/incidents/{incident}", get_incident, Incident),
        ("/incidents/{incident}/diagnosis", get_diagnosis, Document),
        ("/incidents/{incident}/card", get_card, Document),
    )
    for path, handler, model in table:
        whole = path.replace("{run}", "{run:path}")
        add_read(routes, whole, handler=handler, model=model, tags=[path.split("/")[1]])
    return routes


def list_runs(*, service: ServiceOf, page: PageQuery) -> Response:
    """Runs, the one heard of last first, each with its latest attempt."""
    with service.store.read() as connection:
        return page_of(queries.runs(connection, limit=page.limit, offset=page.offset), page)


def get_run(*, service: ServiceOf, run: RunPath) -> Response:
    """A run with all its attempts."""
    with service.store.read() as connection:
        attempts = queries.attempts(connection, run)
    if not attempts:
        raise not_found(f"no run {run!r}")
    return Json({"run": run, "attempts": attempts})


def get_topology(*, service: ServiceOf, run: RunPath, attempt: AttemptQuery = None) -> Response:
    """Groups, hosts, devices and coordinates of an attempt, and where its sources contradict each other."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        layouts = progress.layouts_of(connection, which.id)
    if not layouts:
        raise not_found(f"no layout record of run {run!r} came in yet")
    return Json(topology_to_json(build(layouts)))


def get_facts(*, service: ServiceOf, run: RunPath, attempt: AttemptQuery = None) -> Response:
    """What an attempt can be compared by: environment, versions, layout, hosts, step, phases, kernels."""
    with service.store.read() as connection:
        found = stored_facts(connection, which_attempt(connection, run, attempt))
    if found is None:
        raise not_found(f"no layout record of run {run!r} came in yet")
    return Json(found.to_json())


def get_report(*, service: ServiceOf, run: RunPath) -> Response:
    """GPU-hours the run lost, by cause, and what every step pays for."""
    with service.store.read() as connection:
        which_attempt(connection, run, None)
        found = stored_losses(connection, run)
    if found is None:
        raise not_found(f"no window of run {run!r} was analysed yet")
    return Json(losses_json(found))


def list_heartbeats(
    *, service: ServiceOf, run: RunPath, page: PageQuery, attempt: AttemptQuery = None
) -> Response:
    """The latest heartbeat of each rank."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        found = queries.heartbeats(connection, which.id, limit=page.limit, offset=page.offset)
    return page_of(found, page)


def list_windows(
    *,
    service: ServiceOf,
    run: RunPath,
    page: PageQuery,
    attempt: AttemptQuery = None,
    status: WindowStatus | None = None,
) -> Response:
    """Windows, the latest first."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        found = queries.windows(connection, which.id, status=status, limit=page.limit, offset=page.offset)
    return page_of(found, page)


def get_window(
    *, service: ServiceOf, run: RunPath, window: WindowPath, attempt: AttemptQuery = None
) -> Response:
    """One window: coverage, and per rank the seconds per step and phase."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        found = queries.window(connection, which.id, window)
    if found is None:
        raise not_found(f"no window {window} in attempt {which.attempt} of run {run!r}")
    return Json({"run": run, "attempt": which.attempt, **found})


def get_series(
    *,
    service: ServiceOf,
    run: RunPath,
    attempt: AttemptQuery = None,
    rank: Annotated[
        list[Rank] | None, Query(max_length=MAX_SERIES_RANKS, description="ranks; the first ones when absent")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="windows")] = 60,
) -> Response:
    """Mean step time per window, of the job and per rank, oldest first."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        ranks = tuple(rank) if rank else tuple(range(MAX_SERIES_RANKS))
        points = queries.series(connection, which.id, ranks=ranks, limit=limit)
    return Json({"run": run, "attempt": which.attempt, "unit": "s", "points": points})


def list_run_findings(
    *,
    service: ServiceOf,
    run: RunPath,
    page: PageQuery,
    attempt: AttemptQuery = None,
    window: WindowQuery = None,
    level: Level | None = None,
) -> Response:
    """Findings, those of the latest window first."""
    with service.store.read() as connection:
        which = which_attempt(connection, run, attempt)
        found = queries.findings(
            connection,
            attempt_id=which.id,
            window=window,
            level=level,
            limit=page.limit,
            offset=page.offset,
        )
    return page_of(found, page)


def list_incidents(
    *,
    service: ServiceOf,
    page: PageQuery,
    run: Name | None = None,
    status: IncidentStatus | None = None,
    fault_class: Annotated[Name | None, Query(alias="class")] = None,
) -> Response:
    """Incidents of all runs, open ones first, then the latest."""
    with service.store.read() as connection:
        found = queries.incidents(
            connection,
            run=run,
            status=status,
            fault_class=fault_class,
            limit=page.limit,
            offset=page.offset,
        )
    return page_of(found, page)


def get_incident(*, service: ServiceOf, incident: IdPath) -> Response:
    """One incident with its diagnosis and what happened to it."""
    return Json(_incident(service, incident))


def get_diagnosis(*, service: ServiceOf, incident: IdPath) -> Response:
    """The diagnosis of an incident."""
    diagnosis = _incident(service, incident)["diagnosis"]
    if diagnosis is None:
        raise not_found(f"incident {incident!r} has no diagnosis yet")
    return Json(diagnosis)


def get_card(*, service: ServiceOf, incident: IdPath) -> Response:
    """The incident as a text card, the same that `argus triage` prints."""
    with service.store.read() as connection:
        whole = queries.whole_incident(connection, incident)
        if whole is None or whole.diagnosis is None:
            raise not_found(f"no incident {incident!r} with a diagnosis")
        which = queries.attempt_of_incident(connection, incident)
        assert which is not None, whole
        layouts = progress.layouts_of(connection, which.id)
    topology = build(layouts) if layouts else None
    return Json({"text": service.analyses.render(whole, whole.diagnosis, topology=topology)})


def _incident(service: ServiceOf, incident: str) -> queries.Json:
    with service.store.read() as connection:
        found = queries.incident(connection, incident)
    if found is None:
        raise not_found(f"no incident {incident!r}")
    return found


def which_attempt(connection: Connection, run: str, attempt: int | None) -> Which:
    """The attempt asked for; 404 if there is none."""
    which = queries.attempt_of(connection, run, attempt=attempt)
    if which is None:
        raise not_found(f"no run {run!r}" if attempt is None else f"no attempt {attempt} of run {run!r}")
    return which


def page_of(found: Found, page: Page) -> Response:
    """The answer of a list."""
    return Json({"items": found.items, "total": found.total, "limit": page.limit, "offset": page.offset})
