"""The OpenAPI document: the scope of each operation, how a key is shown, and what every problem looks like."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from argus.analytics.classes import cause_classes
from argus.api.http.answers import PROBLEM_TYPE
from argus.api.http.guard import COOKIE, needs_of

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}

SCHEMES: dict[str, Any] = {
    "key": {"type": "http", "scheme": "bearer", "description": "a key of `argus key create`, or ARGUS_KEY"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "from POST /v1/session"},
}


def add_openapi(app: FastAPI) -> None:
    """Have the application describe itself; made once, when it is first asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = found.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components["securitySchemes"] = SCHEMES
    # FastAPI's own form of a refused parameter is never sent: every problem has the one form.
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for name in ("Incident", "Diagnosed"):
        components["schemas"][name]["properties"]["class"] |= {"enum": [*cause_classes()]}
    needs = {route.operation_id: needs_of(route) for route in app.routes if isinstance(route, APIRoute)}
    for path in found["paths"].values():
        for operation in path.values():
            _complete(operation, needs.get(operation["operationId"], ()))
    return found


def _complete(operation: dict[str, Any], needs: tuple[str, ...]) -> None:
    responses = operation.setdefault("responses", {})
    responses.pop("422", None)
    reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
    responses["default"] = {"description": "a problem", "content": {PROBLEM_TYPE: reference}}
    if needs and needs != ("signature",):
        operation["x-argus-scope"] = needs[-1]
        operation["security"] = [{"key": []}, {"session": []}]
