"""/v1/approvals: an action of a diagnosis put before somebody who may decide; a record, nothing is carried out."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import Connection
from starlette.responses import Response

from argus.analytics.incident import Incident
from argus.analytics.store import approvals, investigations, queries
from argus.analytics.store.approvals import APPROVED, PENDING, REJECTED, Approval
from argus.api.http.answers import Json, add_read, not_found, problem
from argus.api.http.desk import By, Prose, Word
from argus.api.http.guard import APPROVE, INVESTIGATE, READ
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import IdPath, Name, PageQuery, ServiceOf


class Proposal(BaseModel):
    """An action of an incident's diagnosis, by its id in the catalogue."""

    model_config = {"extra": "forbid"}
    incident: Word
    action: Word


class Choice(StrEnum):
    """What may be decided."""

    APPROVE = "approve"
    REJECT = "reject"


class Decision(BaseModel):
    """What somebody decided."""

    model_config = {"extra": "forbid"}
    decision: Choice
    note: Prose = ""


MADE = {Choice.APPROVE: APPROVED, Choice.REJECT: REJECTED}


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["approvals"], dependencies=[READ])
    routes.add_api_route(
        "/approvals",
        post_approval,
        methods=["POST"],
        status_code=201,
        operation_id="post_approval",
        dependencies=[INVESTIGATE],
        response_class=Json,
        responses={201: {"model": Document}},
    )
    routes.add_api_route(
        "/approvals/{approval}:decide",
        decide_approval,
        methods=["POST"],
        operation_id="decide_approval",
        dependencies=[APPROVE],
        response_class=Json,
        responses={200: {"model": Document}},
    )
    add_read(routes, "/approvals", handler=list_approvals, model=Items)
    add_read(routes, "/approvals/{approval}", handler=get_approval, model=Document)
    return routes


def post_approval(*, service: ServiceOf, by: By, proposal: Proposal) -> Response:
    """Put an action before those who may decide; the same one that still waits is not put twice."""
    now_s = service.clock()
    with service.store.write() as connection:
        incident = queries.whole_incident(connection, proposal.incident)
        if incident is None:
            raise not_found(f"no incident {proposal.incident!r}")
        action = proposed(connection, incident, proposal.action)
        if action is None:
            raise not_found(f"the diagnosis of {incident.id} proposes no action {proposal.action!r}")
        digest = digest_of(action)
        known = approvals.pending_like(connection, incident_id=incident.id, digest=digest, now_s=now_s)
        if known is not None:
            return Json(known.to_json(now_s=now_s), status_code=201)
        made = Approval(
            id=f"a-{secrets.token_hex(8)}",
            run=incident.run,
            incident_id=incident.id,
            action=dict(action),
            digest=digest,
            asked_by=by,
            asked_s=now_s,
            expires_s=now_s + service.settings.approval_expires_s,
        )
        approvals.add_approval(connection, made)
    return Json(made.to_json(now_s=now_s), status_code=201)


def decide_approval(*, service: ServiceOf, by: By, approval: IdPath, decision: Decision) -> Response:
    """Approve or reject, once; 409 if it was decided, has expired or is no longer what is proposed."""
    now_s, status = service.clock(), MADE[decision.decision]
    with service.store.write() as connection:
        found = _kept(connection, approval)
        if found.status == status and found.decided_by == by:
            return Json(found.to_json(now_s=now_s))
        if found.to_json(now_s=now_s)["status"] != PENDING:
            return problem(409, f"it is {found.to_json(now_s=now_s)['status']}")
        incident = queries.whole_incident(connection, found.incident_id)
        action = None if incident is None else proposed(connection, incident, str(found.action["id"]))
        if action is None or digest_of(action) != found.digest:
            return problem(409, "the diagnosis no longer proposes this; ask for what it proposes now")
        approvals.decide(connection, found.id, status=status, by=by, note=decision.note, now_s=now_s)
        found = _kept(connection, approval)
    return Json(found.to_json(now_s=now_s))


def list_approvals(*, service: ServiceOf, page: PageQuery, incident: Name | None = None) -> Response:
    """Approvals, the latest first."""
    with service.store.read() as connection:
        found = approvals.approvals(
            connection, incident_id=incident, now_s=service.clock(), limit=page.limit, offset=page.offset
        )
    return Json({"items": found.items, "total": found.total, "limit": page.limit, "offset": page.offset})


def get_approval(*, service: ServiceOf, approval: IdPath) -> Response:
    """One approval."""
    with service.store.read() as connection:
        return Json(_kept(connection, approval).to_json(now_s=service.clock()))


def digest_of(action: Mapping[str, Any]) -> str:
    """Of what would be done to what: words and estimates around it may change."""
    parts = tuple(str(action.get(name, "")) for name in ("id", "target", "command"))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def proposed(connection: Connection, incident: Incident, action_id: str) -> Mapping[str, Any] | None:
    """An action of the best diagnosis there is, the agent's before the triage's; None if it proposes none such."""
    done = investigations.last_done(connection, [incident.id]).get(incident.id)
    diagnoses = [(done.outcome if done else None) or {}, incident.diagnosis or {}]
    proposed = [action for diagnosis in diagnoses for action in diagnosis.get("remediation", ())]
    return next((action for action in proposed if action.get("id") == action_id), None)


def _kept(connection: Connection, approval_id: str) -> Approval:
    found = approvals.approval(connection, approval_id)
    if found is None:
        raise not_found(f"no approval {approval_id!r}")
    return found
