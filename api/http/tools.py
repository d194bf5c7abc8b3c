"""/v1/tools and /v1/evidence: the tools of the agent for scripts, and what they answered."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from argus.agent.evidence import Json as JsonObject
from argus.agent.registry import Tool, registry
from argus.api.http.answers import Json, not_found, problem
from argus.api.http.guard import INVESTIGATE, READ, the_principal, the_project
from argus.api.http.shapes import Document, ToolAnswer
from argus.api.http.wiring import IdPath, read_body
from argus.api.keys import Principal
from argus.api.projects import Project
from argus.api.toolbox import ALL, Toolbox
from argus.api.toolbox import READ as READ_ONLY

MAX_CALL_BYTES = 1 << 18
"""A diagnosis with every claim is some 10 kB."""


def the_toolbox(request: Request) -> Toolbox:
    """The tools of the caller's project, with what the caller may do."""
    return toolbox_for(the_project(request), the_principal(request))


def toolbox_for(project: Project, principal: Principal) -> Toolbox:
    """A project's tools for one caller: to order captures is to investigate."""
    return replace(project.toolbox, scopes=ALL if principal.may("investigate") else READ_ONLY)


ToolboxOf = Annotated[Toolbox, Depends(the_toolbox)]


def router() -> APIRouter:
    """One route a tool, whose operation id is the tool's name, one to list them, one to open what they said.

    A call that was understood is answered with 200: that there is nothing, or that it is denied, is its status.
    """
    routes = APIRouter(prefix="/v1", tags=["tools"], dependencies=[READ])
    for path, handler in (("/tools", list_tools), ("/evidence/{evidence}", get_evidence)):
        routes.add_api_route(
            path,
            handler,
            methods=["GET"],
            operation_id=handler.__name__,
            response_class=Json,
            responses={200: {"model": Document}},
        )
    for tool in registry().tools.values():
        routes.add_api_route(
            f"/tools/{tool.name}:call",
            _handler(tool.name),
            methods=["POST"],
            operation_id=tool.name,
            dependencies=[] if tool.read_only else [INVESTIGATE],
            summary=tool.description.split("\n")[0],
            description=tool.description,
            response_class=Json,
            responses={200: {"model": ToolAnswer}},
            openapi_extra=_extra(tool),
        )
    routes.add_api_route("/tools/{name}:call", call_unknown, methods=["POST"], include_in_schema=False)
    return routes


def list_tools(*, toolbox: ToolboxOf) -> Response:
    """Every tool: as function of Chat Completions and as JSON Schema of its arguments."""
    return Json({"tools": [tool_json(tool) for tool in toolbox.registry.tools.values()]})


def tool_json(tool: Tool) -> JsonObject:
    """A tool as it is listed."""
    return {
        "name": tool.name,
        "description": tool.description,
        "read_only": tool.read_only,
        "terminal": tool.is_terminal,
        "scope": tool.scope,
        "parameters": tool.parameters,
        "openai": tool.to_openai(strict=True),
    }


def get_evidence(*, toolbox: ToolboxOf, evidence: IdPath) -> Response:
    """What a tool answered, as it was."""
    found = toolbox.book.get(evidence)
    if found is None:
        raise not_found(f"no evidence {evidence!r}")
    return Json(found.to_json())


def call_unknown(*, toolbox: ToolboxOf, name: str) -> Response:
    """404 with the names there are."""
    raise not_found(f"no tool {name[:64]!r}; there are {', '.join(toolbox.registry.tools)}")


def _handler(name: str) -> Callable[..., Awaitable[Response]]:
    async def call(request: Request, *, toolbox: ToolboxOf) -> Response:
        body = await read_body(request, limit=MAX_CALL_BYTES)
        try:
            raw = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            return problem(400, 'the body must be JSON such as {"arguments": {}}')
        if not isinstance(raw, dict) or set(raw) - {"arguments"}:
            return problem(422, "the body must be an object with the one member 'arguments'")
        started = time.perf_counter()
        result = await to_thread.run_sync(toolbox.call, name, raw.get("arguments", {}))
        took_ms = round((time.perf_counter() - started) * 1e3, 3)
        answer = {**result.to_json(), "elapsed_ms": took_ms}
        return Json(answer)

    call.__name__ = name
    return call


def _extra(tool: Tool) -> JsonObject:
    body = {"type": "object", "properties": {"arguments": tool.parameters}, "required": ["arguments"]}
    return {
        "x-argus-read-only": tool.read_only,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }
