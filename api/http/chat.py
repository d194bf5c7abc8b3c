"""POST /v1/chat: one question about a run or an incident, answered whole or step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from argus.agent.case import Case
from argus.agent.context import Unknown
from argus.agent.loop.course import Step
from argus.api.asking import Asking
from argus.api.desk import Desk
from argus.api.http import sse
from argus.api.http.answers import Json, not_found, overloaded
from argus.api.http.asking import FULL, AskingOf, answering, is_full, unknown
from argus.api.http.desk import DeskOf, Prose, Word
from argus.api.http.guard import INVESTIGATE
from argus.api.http.shapes import Document
from argus.api.http.wiring import ServiceOf
from argus.api.memory import NoConversation


class Question(BaseModel):
    """A question; `conversation` goes on with an earlier one."""

    model_config = {"extra": "forbid"}
    question: Annotated[Prose, Field(min_length=1)]
    run: Word | None = None
    incident: Word | None = None
    conversation: Word | None = None
    stream: bool = False


def router() -> APIRouter:
    """The route."""
    routes = APIRouter(prefix="/v1", tags=["agent"])
    routes.add_api_route(
        "/chat",
        post_chat,
        methods=["POST"],
        operation_id="post_chat",
        dependencies=[INVESTIGATE],
        response_class=Json,
        responses={
            200: {"model": Document, "content": sse.CONTENT},
        },
    )
    return routes


async def post_chat(*, asking: AskingOf, service: ServiceOf, desk: DeskOf, question: Question) -> Response:
    """The answer with the conversation it belongs to and the deterministic diagnosis; `stream`: that diagnosis at once,
    then the agent's steps, then the answer."""

    def is_over() -> bool:
        return service.board.is_closed

    if is_full(desk):
        return overloaded(FULL)
    try:
        with answering(desk):
            case = await _case(asking, question)
            if not question.stream:
                return Json(await sse.whole(_turn(asking, question), is_over=is_over))
    except sse.Stopped as error:
        return overloaded(str(error))
    except Unknown as error:
        raise unknown(error) from None
    except NoConversation as error:
        raise not_found(str(error)) from None
    return sse.streamed(_live(asking, question, case, desk=desk, is_over=is_over))


async def _live(
    asking: Asking, question: Question, case: Case, *, desk: Desk, is_over: Callable[[], bool]
) -> AsyncIterator[bytes]:
    with answering(desk):
        async for raw in sse.live(lambda push: _streamed(asking, question, case, push), is_over=is_over):
            yield raw


async def _case(asking: Asking, question: Question) -> Case:
    """What it is about: what is not there is 404 before a stream has begun. Raises Unknown, NoConversation."""

    def look() -> Case:
        case = asking.case(run=question.run, incident=question.incident, conversation=question.conversation)
        asking.memory(case, question.conversation)
        return case

    return await to_thread.run_sync(look)


async def _turn(asking: Asking, question: Question, watch: sse.Push | None = None) -> dict[str, object]:
    def seen(step: Step) -> None:
        if watch is not None:
            watch("step", step_json(step))

    return await asking.turn(
        question.question,
        run=question.run,
        incident=question.incident,
        conversation=question.conversation,
        watch=seen,
    )


async def _streamed(asking: Asking, question: Question, case: Case, push: sse.Push) -> tuple[str, object]:
    """The triage at once, however long the model takes, then the agent's steps and its answer."""
    push("triage", {"diagnosis": dict(case.diagnosis)})
    try:
        return "answer", await _turn(asking, question, push)
    except (Unknown, NoConversation) as error:
        return "error", {"type": "about:blank", "title": "Not Found", "status": 404, "detail": str(error)}


def step_json(step: Step) -> dict[str, object]:
    """A step as it is streamed."""
    return {"what": step.what, "text": step.text, "details": dict(step.details)}
