"""/v1/session: who the caller is, and a browser's way in: a key once, then a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from argus.api.http.answers import Json
from argus.api.http.guard import COOKIE, the_guard
from argus.api.http.shapes import Document
from argus.api.keyring import SESSION_S
from argus.api.keys import Principal


class Login(BaseModel):
    """What a browser shows once."""

    model_config = {"extra": "forbid"}
    key: Annotated[str, Field(max_length=512)]


def router() -> APIRouter:
    """The routes; none asks for a scope: they say who the caller is, or make it known."""
    routes = APIRouter(prefix="/v1", tags=["session"])
    for method, handler in (("GET", get_session), ("POST", log_in), ("DELETE", log_out)):
        routes.add_api_route(
            "/session",
            handler,
            methods=[method],
            operation_id=handler.__name__,
            response_class=Json,
            responses={200: {"model": Document}},
        )
    return routes


async def get_session(request: Request) -> Response:
    """Who the caller is and may do; 401 without a good key or session."""
    return Json(_told(await the_guard(request).identify(request)))


async def log_in(request: Request, login: Login) -> Response:
    """Takes a key; sets a cookie that only this site's own pages send, and that no script reads."""
    guard = the_guard(request)
    guard.check_login(request)
    entered = await to_thread.run_sync(guard.keyring.log_in, login.key.strip())
    if entered is None:
        raise HTTPException(401, "this key opens nothing here", headers={"WWW-Authenticate": "Bearer"})
    cookie, principal = entered
    request.state.principal = principal
    answer = Json(_told(principal))
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def log_out(request: Request) -> Response:
    """Ends the session of the cookie."""
    guard = the_guard(request)
    request.state.principal = await guard.identify(request)
    await to_thread.run_sync(guard.keyring.log_out, request.cookies.get(COOKIE, ""))
    answer = Json({"ended": True})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


def _told(principal: Principal) -> dict[str, Any]:
    return {
        "project": principal.project,
        "key": principal.key,
        "name": principal.name,
        "scopes": sorted(principal.scopes),
        "via": principal.via,
        "csrf": principal.csrf or None,
    }
