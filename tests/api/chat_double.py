"""The routes of a chat and of investigations as `argus chat --server` needs them, on a service's application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.responses import Response, StreamingResponse

from argus.agent.loop.course import Step
from argus.api.http.answers import Json
from argus.api.http.asking import AskingOf
from argus.api.http.wiring import require_key

Body = dict[str, Any]
Work = Callable[[Callable[[Step], None]], Awaitable[Body]]


def add_chat(app: FastAPI) -> None:
    """POST /v1/chat and /v1/investigations with their events."""
    routes = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])
    asked: dict[str, Body] = {}

    async def chat(body: Body, *, asking: AskingOf) -> Response:
        about = {name: body[name] for name in ("run", "incident", "conversation")}
        return streamed(lambda watch: asking.turn(body["question"], watch=watch, **about), "answer")

    async def investigations(body: Body) -> Response:
        asked["i-1"] = body
        return Json({"id": "i-1", "status": "running"}, status_code=202)

    async def events(investigation: str, *, asking: AskingOf) -> Response:
        body = asked[investigation]

        async def work(watch: Callable[[Step], None]) -> Body:
            case = asking.case(run=body["run"], incident=body["incident"])
            question = body["question"]
            done = await asking.agent.investigate(asking.toolbox, case, question=question, watch=watch)
            return done.to_json()

        return streamed(work, "outcome")

    routes.add_api_route("/chat", chat, methods=["POST"])
    routes.add_api_route("/investigations", investigations, methods=["POST"])
    routes.add_api_route("/investigations/{investigation}/events", events, methods=["GET"])
    app.include_router(routes)


def streamed(work: Work, last: str) -> Response:
    """Steps as they come, then the result; a problem where there is none."""

    async def told() -> AsyncIterator[str]:
        queue: asyncio.Queue[tuple[str, Body]] = asyncio.Queue()

        async def run() -> None:
            try:
                done = await work(lambda step: queue.put_nowait(("step", asdict(step))))
            except LookupError as error:
                queue.put_nowait(("error", {"status": 404, "detail": str(error)}))
            else:
                queue.put_nowait((last, done))

        task = asyncio.create_task(run())
        name = "step"
        while name == "step":
            name, data = await queue.get()
            yield f": keep-alive\n\nevent: {name}\ndata: {json.dumps(data)}\n\n"
        await task

    return StreamingResponse(told(), media_type="text/event-stream")
