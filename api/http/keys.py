"""/v1/keys and /v1/audit: keys made, listed and revoked, and what was done, for admins."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from argus.analytics.store import audit, keys
from argus.api.http.answers import Json, add_read, not_found, problem
from argus.api.http.guard import ADMIN, PrincipalOf, the_guard
from argus.api.http.reading import page_of
from argus.api.http.shapes import Document, Items
from argus.api.http.wiring import IdPath, Name, PageQuery
from argus.api.keys import Principal, Scope, Wish

MAX_DAYS = 3660.0


class NewKey(BaseModel):
    """A key that is wanted; without a project it is one of the caller's."""

    model_config = {"extra": "forbid"}
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    name: Annotated[str, Field(max_length=128)] = ""
    project: Annotated[str, Field(max_length=32)] | None = None
    days: Annotated[float, Field(gt=0, le=MAX_DAYS)] | None = None


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["keys"], dependencies=[ADMIN])
    add_read(routes, "/keys", handler=list_keys, model=Items)
    add_read(routes, "/audit", handler=list_audit, model=Items)
    for method, path, handler in (("POST", "/keys", create_key), ("DELETE", "/keys/{key}", revoke_key)):
        routes.add_api_route(
            path,
            handler,
            methods=[method],
            operation_id=handler.__name__,
            response_class=Json,
            responses={200: {"model": Document}},
        )
    return routes


def list_keys(*, request: Request, principal: PrincipalOf, page: PageQuery) -> Response:
    """Keys, the newest first, without their secrets: of the caller's project, of all for the operator."""
    with the_guard(request).keyring.store.read() as connection:
        found = keys.list_keys(connection, project=_reach(principal), limit=page.limit, offset=page.offset)
    return page_of(found, page)


def list_audit(
    *, request: Request, principal: PrincipalOf, page: PageQuery, action: Name | None = None
) -> Response:
    """Who did what, when, with what outcome, the latest first: in the caller's project, in all for the operator."""
    with the_guard(request).keyring.store.read() as connection:
        found = audit.list_deeds(
            connection, project=_reach(principal), action=action, limit=page.limit, offset=page.offset
        )
    return page_of(found, page)


async def create_key(request: Request, *, principal: PrincipalOf, key: NewKey) -> Response:
    """Make a key; its token is in this answer and nowhere else. Other projects' keys are made by the operator."""
    project = key.project or principal.project
    if project != principal.project and not principal.is_operator:
        return problem(403, f"only an admin of the default project makes keys of project {project!r}")
    lives_s = None if key.days is None else key.days * 86400.0
    wish = Wish(project=project, name=key.name, scopes=tuple(key.scopes), lives_s=lives_s)
    keyring = the_guard(request).keyring
    try:
        token, row = await to_thread.run_sync(lambda: keyring.create(wish, by=principal.who))
    except ValueError as error:
        return problem(422, str(error))
    request.state.is_audited = True
    return Json({**row.to_json(), "token": token})


async def revoke_key(request: Request, *, principal: PrincipalOf, key: IdPath) -> Response:
    """Have a key open nothing any more; within five seconds also at other replicas."""
    keyring, reach = the_guard(request).keyring, _reach(principal)
    if not await to_thread.run_sync(lambda: keyring.revoke(key, project=reach, by=principal.who)):
        raise not_found(f"no key {key!r}")
    request.state.is_audited = True
    return Json({"id": key, "revoked": True})


def _reach(principal: Principal) -> str | None:
    """The project whose keys and audit the caller may see; None = all."""
    return None if principal.is_operator else principal.project
