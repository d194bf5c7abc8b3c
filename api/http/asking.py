"""/v1/case and /v1/conversations: what the agent would be asked about, and what it was asked before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from starlette.responses import Response

from argus.agent.context import Unknown
from argus.analytics.store import conversations
from argus.api.agent import agent_for
from argus.api.asking import Asking, asking_of, case_json
from argus.api.desk import Desk
from argus.api.http.answers import Json, add_read, not_found
from argus.api.http.guard import READ
from argus.api.http.shapes import Document, Items
from argus.api.http.tools import ToolboxOf
from argus.api.http.wiring import IdPath, Name, PageQuery, ServiceOf

MAX_ASKED = 32
"""Questions of a project that are answered at once: each takes threads, the database and a model's time."""

FULL = f"{MAX_ASKED} questions are being answered already"


def is_full(desk: Desk) -> bool:
    """Whether one more question would be turned away."""
    return desk.num_asked >= MAX_ASKED


@contextmanager
def answering(desk: Desk) -> Iterator[None]:
    """While a question is answered."""
    desk.num_asked += 1
    try:
        yield
    finally:
        desk.num_asked -= 1


def the_asking(*, service: ServiceOf, toolbox: ToolboxOf) -> Asking:
    """Where questions to the service are answered; runbooks are read anew, so that a change needs no restart."""
    return asking_of(service, agent_for(service), toolbox)


AskingOf = Annotated[Asking, Depends(the_asking)]


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["agent"], dependencies=[READ])
    add_read(routes, "/case", handler=get_case, model=Document)
    add_read(routes, "/conversations", handler=list_conversations, model=Items)
    add_read(routes, "/conversations/{conversation}", handler=get_conversation, model=Document)
    return routes


def unknown(error: Unknown) -> HTTPException:
    """404 with the names that resemble what was asked for."""
    close = f"; close: {', '.join(error.close)}" if error.close else ""
    return not_found(f"{error}{close}")


def get_case(*, asking: AskingOf, run: Name | None = None, incident: Name | None = None) -> Response:
    """The incident named, else the run's costliest open one, else the run: its card, reasons and diagnosis."""
    try:
        case = asking.case(run=run, incident=incident)
    except Unknown as error:
        raise unknown(error) from None
    has_model = asking.agent.endpoint is not None
    return Json(case_json(case, toolbox=asking.toolbox, has_model=has_model))


def list_conversations(*, service: ServiceOf, page: PageQuery, run: Name | None = None) -> Response:
    """Conversations, the one spoken in last first."""
    with service.store.read() as connection:
        found = conversations.conversations(connection, run=run, limit=page.limit, offset=page.offset)
        total = conversations.num_conversations(connection, run=run)
    items = [asdict(one) for one in found]
    return Json({"items": items, "total": total, "limit": page.limit, "offset": page.offset})


def get_conversation(*, service: ServiceOf, conversation: IdPath) -> Response:
    """One conversation with its questions and answers in order."""
    with service.store.read() as connection:
        found = conversations.conversation(connection, conversation)
        entries = [] if found is None else conversations.entries(connection, conversation)
    if found is None:
        raise not_found(f"no conversation {conversation!r}")
    return Json({**asdict(found), "entries": entries})
