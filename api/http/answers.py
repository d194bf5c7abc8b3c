"""Answers: JSON any reader takes, and problems as RFC 9457 says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from argus.analytics.store.documents import dump
from argus.analytics.store.gate import Unavailable
from argus.api.complaints import no_answer
from argus.api.service import NothingTaken
from argus.collectors.records.errors import NewerError, WireError
from argus.collectors.records.upload import WIRE_HEADER, WIRE_VERSION

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

FORESEEN = (StarletteHTTPException, NothingTaken, WireError, RequestValidationError, SQLAlchemyError)
"""Errors that `response_to` has words for."""

MAX_REASONS = 100
"""Rejections told in a problem; a million of them would be a bigger answer than the request."""


class Json(JSONResponse):
    """ASCII JSON without NaN."""

    def render(self, content: object) -> bytes:
        """The body."""
        return dump(content).encode()


def problem(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, more: Mapping[str, object] = {}
) -> Response:
    """A problem document."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Json({**body, **more}, status_code=status, headers=dict(headers or {}), media_type=PROBLEM_TYPE)


def overloaded(detail: str) -> Response:
    """503 with the time to come back."""
    return problem(503, detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def response_to(error: Exception) -> Response:
    """The problem document of a foreseeable error."""
    if isinstance(error, StarletteHTTPException):
        return problem(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, NothingTaken):
        rejected = [{"index": item.index, "reason": item.reason} for item in error.rejected[:MAX_REASONS]]
        return problem(422, str(error), more={"rejected": rejected})
    if isinstance(error, NewerError):
        return problem(426, str(error), headers={"Upgrade": f"{WIRE_HEADER}/{WIRE_VERSION}"})
    if isinstance(error, WireError):
        return problem(400, str(error))
    if isinstance(error, RequestValidationError):
        told = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        return problem(422, "; ".join(told)[:2000])
    if isinstance(error, Unavailable):
        return overloaded(str(error))
    assert isinstance(error, SQLAlchemyError), error
    return overloaded(no_answer(error))


def add_problem_handlers(app: FastAPI) -> None:
    """Every foreseeable error as a problem document."""
    for kind in FORESEEN:
        app.add_exception_handler(kind, _handle)
    app.add_exception_handler(Exception, _broken)


async def _broken(_request: Request, error: Exception) -> Response:
    """What nobody foresaw: the server logs it with its trace, the caller hears nothing of our insides."""
    return problem(500, "the service failed at this; its log says more")


async def _handle(_request: Request, error: Exception) -> Response:
    return response_to(error)


def not_found(what: str) -> HTTPException:
    """404 with what is not there."""
    return HTTPException(404, what)


def add_read(
    routes: APIRouter,
    path: str,
    *,
    handler: Callable[..., Response],
    model: type[BaseModel],
    tags: Sequence[str | Enum] = (),
) -> None:
    """A GET whose operation is called what its handler is called."""
    routes.add_api_route(
        path,
        handler,
        methods=["GET"],
        operation_id=handler.__name__,
        response_class=Json,
        responses={200: {"model": model}},
        tags=list(tags),
    )
