"""Who asks, what they may do, and which project's service answers: every route says its scope with one of these."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn, cast

from anyio import to_thread
from fastapi import Depends, HTTPException, Request
from starlette.routing import BaseRoute

from argus.analytics.store.projects import DEFAULT
from argus.api.http.limits import Buckets
from argus.api.keyring import Keyring
from argus.api.keys import SCOPES, Principal, Scope, names_this_machine, open_principal
from argus.api.projects import Project, ProjectError, Projects
from argus.api.service import Service

COOKIE = "argus_session"
CSRF_HEADER = "argus-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

DENIALS_S = 20.0
"""Requests without a good key that one address may make a second; a scanner is slowed down, no user is."""

LOGINS_S = 1.0
"""Logins of one address a second, thirty at once: people type keys, programs send them with each request."""

NO_KEY = "this service needs 'Authorization: Bearer KEY'"


@dataclass(kw_only=True)
class Guard:
    """What stands before the routes of an application."""

    keyring: Keyring
    projects: Projects
    max_requests_s: float
    max_ingest_s: float
    ticks: Callable[[], float] = time.monotonic
    _buckets: dict[str, Buckets] = field(default_factory=dict, repr=False)

    async def admit(self, request: Request, *scopes: Scope) -> Principal:
        """Who asks and may do one of `scopes`, with their project's service at hand.

        Raises HTTPException 401, 403, 421, 429 or 503.
        """
        principal: Principal | None = request.scope["state"].get("principal")
        if principal is None:
            principal = await self.identify(request, is_upload="ingest" in scopes)
            request.state.principal = principal
        if not any(principal.may(scope) for scope in scopes):
            raise HTTPException(403, f"this needs a key with the scope {' or '.join(scopes)}")
        await self.enter(request, principal.project)
        return principal

    async def identify(self, request: Request, *, is_upload: bool = False) -> Principal:
        """Who asks, within the rate of their key. Raises HTTPException 401, 403, 421 or 429."""
        keyring = self.keyring
        if not (keyring.needs_key() if keyring.is_ready() else await to_thread.run_sync(keyring.needs_key)):
            check_keyless(request)
            return open_principal()
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        cookie = request.cookies.get(COOKIE, "")
        found = None
        if token and scheme.lower() == "bearer":
            found = await self._found(token.strip(), keyring.bearer)
        elif cookie and not token:
            found = await self._found(cookie, keyring.visitor)
        if found is None:
            self._refuse(request)
        check_csrf(request, found)
        self._limit(found, is_upload=is_upload)
        return found

    async def enter(self, request: Request, name: str) -> Project:
        """Have a project's service answer the request. Raises HTTPException 503."""
        project = self.projects.get(name)
        if project is None:
            try:
                project = await to_thread.run_sync(self.projects.of, name)
            except ProjectError as error:
                raise HTTPException(503, str(error), headers={"Retry-After": "30"}) from None
        request.state.project = project
        return project

    def check_login(self, request: Request) -> None:
        """What of a login can be said without its key. Raises HTTPException 403 or 429."""
        check_origin(request)
        self._wait("login", request.client.host if request.client else "", LOGINS_S)

    async def _found(self, token: str, find: Callable[[str], Principal | None]) -> Principal | None:
        is_known, found = self.keyring.recalled(token)
        return found if is_known else await to_thread.run_sync(find, token)

    def _limit(self, principal: Principal, *, is_upload: bool) -> None:
        if principal.via == "open":
            return  # this machine's own user
        kind, per_s = ("ingest", self.max_ingest_s) if is_upload else ("key", self.max_requests_s)
        self._wait(kind, principal.key, per_s)

    def _refuse(self, request: Request) -> NoReturn:
        """401, or 429 to an address that goes on trying."""
        self._wait("denied", request.client.host if request.client else "", DENIALS_S)
        raise HTTPException(401, NO_KEY, headers={"WWW-Authenticate": "Bearer"})

    def _wait(self, kind: str, name: str, per_s: float) -> None:
        buckets = self._buckets.setdefault(kind, Buckets(per_s=per_s, ticks=self.ticks, burst_s=30.0))
        if wait_s := buckets.wait_s(name):
            raise HTTPException(
                429,
                f"more than {per_s:g} requests a second",
                headers={"Retry-After": str(math.ceil(wait_s))},
            )


def check_keyless(request: Request) -> None:
    """Where no key is needed, only this machine's own programs and pages may ask. Raises HTTPException."""
    host = request.headers.get("host", "")
    if not names_this_machine(host):
        raise HTTPException(421, f"without a key this service answers to localhost only, not to {host!a:.80}")
    check_origin(request)


def check_csrf(request: Request, visitor: Principal) -> None:
    """A browser sends its cookie along with whatever page asks: what changes something must know more. 403."""
    if visitor.via != "session" or request.method in SAFE_METHODS:
        return
    check_origin(request)
    if request.headers.get(CSRF_HEADER, "") != visitor.csrf:
        raise HTTPException(
            403, "with a session's cookie this needs the header Argus-CSRF of GET /v1/session"
        )


def check_origin(request: Request) -> None:
    """403 for what another site's page makes a browser send."""
    if request.method in SAFE_METHODS:
        return
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    is_foreign = bool(origin) and origin.partition("://")[2] != host
    if is_foreign or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise HTTPException(403, "a page of another site may not do this")


Admit = Callable[[Request], Awaitable[Principal]]


def _admitting(*scopes: Scope) -> Admit:
    async def admitted(request: Request) -> Principal:
        return await the_guard(request).admit(request, *scopes)

    return admitted


_ADMIT: Mapping[Scope, Admit] = {scope: _admitting(scope) for scope in SCOPES}
_TELL = _admitting("ingest", "investigate")


async def signed(request: Request) -> None:
    """Marks a route whose handler checks a signature itself and then takes its service by `signed_project`."""


INGEST, READ, INVESTIGATE, APPROVE, ADMIN = (Depends(_ADMIT[scope]) for scope in SCOPES)
TELL = Depends(_TELL)
"""For what hosts tell by themselves and people also tell: ingest or investigate."""

SIGNED = Depends(signed)

NEEDED: Mapping[Callable[..., Any], str] = {
    **{call: scope for scope, call in _ADMIT.items()},
    _TELL: "ingest|investigate",
    signed: "signature",
}


def needs_of(route: BaseRoute) -> tuple[str, ...]:
    """The scopes a route asks for (`a|b`: one of them), and `signature` for one that checks that itself."""
    dependant = getattr(route, "dependant", None)
    calls = [one.call for one in dependant.dependencies] if dependant is not None else []
    return tuple(NEEDED[call] for call in calls if call in NEEDED)


def the_guard(request: Request) -> Guard:
    """What stands before the routes."""
    return cast(Guard, request.app.state.guard)


def the_principal(request: Request) -> Principal:
    """Who asks, on a route that says its scope."""
    return cast(Principal, request.state.principal)


def the_project(request: Request) -> Project:
    """Whose service answers, on a route that says its scope."""
    return cast(Project, request.state.project)


def the_service(request: Request) -> Service:
    """The service of the caller's project, on a route that says its scope."""
    return the_project(request).service


async def signed_project(request: Request, name: str = DEFAULT) -> Project:
    """The project of a signed request, once the signature was checked. Raises HTTPException 404."""
    guard = the_guard(request)
    if guard.projects.get(name) is None:
        raise HTTPException(404, f"no project {name!a:.40}")
    return await guard.enter(request, name)


PrincipalOf = Annotated[Principal, Depends(the_principal)]
