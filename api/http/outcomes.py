"""/v1/incidents/ID/outcomes: what was done about an incident and whether it helped, said by people or seen."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator
from sqlalchemy import Connection
from starlette.responses import Response

from argus.analytics.incident import Incident
from argus.analytics.outcome import SAID, Outcome
from argus.analytics.store import outcomes, queries
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.approvals import proposed
from argus.api.http.desk import By, Prose, Word
from argus.api.http.guard import APPROVE, READ
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import IdPath, PageQuery, ServiceOf


class Result(StrEnum):
    """Whether what was done helped."""

    HELPED = "helped"
    DID_NOT_HELP = "did_not_help"
    UNCLEAR = "unclear"


class NewOutcome(BaseModel):
    """What was done, in words or as an action of the incident's diagnosis by its id, and whether it helped."""

    model_config = {"extra": "forbid"}
    did: Annotated[Word, Field(max_length=200)] = ""
    action: Annotated[Word, Field(max_length=128)] = ""
    result: Result
    text: Prose = ""

    @model_validator(mode="after")
    def _says_what(self) -> NewOutcome:
        if not (self.did.strip() or self.action):
            raise ValueError("say what was done (did), or name an action of the diagnosis")
        return self


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["incidents"], dependencies=[READ])
    routes.add_api_route(
        "/incidents/{incident}/outcomes",
        post_outcome,
        methods=["POST"],
        status_code=201,
        operation_id="post_outcome",
        dependencies=[APPROVE],
        response_class=Json,
        responses={201: {"model": Document}},
    )
    add_read(routes, "/incidents/{incident}/outcomes", handler=list_outcomes, model=Items)
    return routes


def post_outcome(*, service: ServiceOf, by: By, incident: IdPath, wanted: NewOutcome) -> Response:
    """Keep what was done and whether it helped; the same said twice is once, said anew it replaces what you said."""
    with service.store.write() as connection:
        found = _kept(connection, incident)
        action = proposed(connection, found, wanted.action) if wanted.action else None
        if wanted.action and action is None:
            raise not_found(f"the diagnosis of {found.id} proposes no action {wanted.action!r}")
        said = Outcome(
            incident_id=found.id,
            at_s=service.clock(),
            source=SAID,
            did=wanted.did.strip() or str((action or {}).get("action", ""))[:200],
            action=wanted.action,
            result=wanted.result,
            by=by,
            text=wanted.text,
        )
        outcomes.add_outcome(connection, said)
    return Json(said.to_json(), status_code=201)


def list_outcomes(*, service: ServiceOf, page: PageQuery, incident: IdPath) -> Response:
    """What people said, oldest first, then what the incident's own and later attempts show."""
    with service.store.read() as connection:
        whole = _kept(connection, incident)
        found = [one.to_json() for one in outcomes.outcomes_of(connection, [whole]).get(whole.id, ())]
    shown = found[page.offset : page.offset + page.limit]
    return Json({"items": shown, "total": len(found), "limit": page.limit, "offset": page.offset})


def _kept(connection: Connection, incident_id: str) -> Incident:
    found = queries.whole_incident(connection, incident_id)
    if found is None:
        raise not_found(f"no incident {incident_id!r}")
    return found
