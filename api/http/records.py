"""/v1/…: single findings, diagnoses of all incidents, the book of evidence, and what this service is."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from argus.analytics.store import evidence, progress
from argus.analytics.store.diagnoses import diagnoses
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.guard import READ, PrincipalOf
from argus.api.http.reading import page_of
from argus.api.http.shapes import Diagnosed, Document, Finding, Items, ListOf, Verdict
from argus.api.http.wiring import IdPath, Name, PageQuery, ServiceOf
from argus.collectors.host.reporting import product_version
from argus.collectors.records.upload import OLDEST_WIRE, WIRE_VERSION


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", dependencies=[READ])
    table: tuple[tuple[str, Callable[..., Response], type[BaseModel]], ...] = (
        ("/info", get_info, Document),
        ("/findings/{finding}", get_run_finding, Finding),
        ("/diagnoses", list_diagnoses, ListOf[Diagnosed]),
        ("/evidence", list_evidence, Items),
    )
    for path, handler, model in table:
        add_read(routes, path, handler=handler, model=model, tags=[path.split("/")[1]])
    return routes


def get_info(*, principal: PrincipalOf) -> Response:
    """Version of the product, the API and the wire, and the caller's project."""
    return Json(
        {
            "version": product_version(),
            "api": "v1",
            "wire": {"speaks": WIRE_VERSION, "reads": list(range(OLDEST_WIRE, WIRE_VERSION + 1))},
            "project": principal.project,
        }
    )


def get_run_finding(*, service: ServiceOf, finding: IdPath) -> Response:
    """One finding with the numbers behind it."""
    with service.store.read() as connection:
        found = progress.findings_by_id(connection, [finding]).get(finding)
    if found is None:
        raise not_found(f"no finding {finding!r}")
    return Json(found.to_json())


def list_diagnoses(
    *, service: ServiceOf, page: PageQuery, run: Name | None = None, verdict: Verdict | None = None
) -> Response:
    """Diagnoses with the incidents they are of, the latest incident first."""
    with service.store.read() as connection:
        found = diagnoses(connection, run=run, verdict=verdict, limit=page.limit, offset=page.offset)
    return page_of(found, page)


def list_evidence(*, service: ServiceOf, page: PageQuery, run: Name | None = None) -> Response:
    """What tools answered, the last answered first, without its data: open one by id."""
    with service.store.read() as connection:
        found = evidence.list_evidence(connection, run=run, limit=page.limit, offset=page.offset)
    return page_of(found, page)
