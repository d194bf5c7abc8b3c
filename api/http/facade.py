"""/v1/chat/completions and /v1/models: the agent behind OpenAI's own form, so that chat front ends work as they are."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.responses import JSONResponse, Response

from argus.agent.answer import why_lines
from argus.agent.beside import lead_of
from argus.agent.case import Case
from argus.agent.context import Unknown
from argus.agent.guard import question_of
from argus.agent.loop.chat import Answered
from argus.agent.loop.course import Step
from argus.agent.model.message import Message, tokens_of
from argus.analytics.store.documents import dump
from argus.api.asking import Asking
from argus.api.desk import Desk
from argus.api.http import sse
from argus.api.http.answers import RETRY_AFTER_S, Json
from argus.api.http.asking import FULL, AskingOf, answering, is_full
from argus.api.http.desk import DeskOf
from argus.api.http.guard import INVESTIGATE, READ
from argus.api.http.shapes import Document
from argus.api.http.wiring import ServiceOf
from argus.api.service import Service

MODEL = "argus"
PREFIX = f"{MODEL}/"
MAX_MODELS = 100
MAX_MESSAGES = 200
MAX_HISTORY = 24
_INCIDENT = re.compile(r"\bi-[0-9a-f]{16}\b")

Text = Annotated[str, Field(max_length=200_000)]
Object = dict[str, Any]


def _printable(text: str) -> str:
    return text if text.isprintable() else "unprintable"


class Part(BaseModel):
    """A part of a message; only text is read."""

    model_config = {"extra": "ignore"}
    type: str = "text"
    text: Text = ""


class ChatMessage(BaseModel):
    """One message of the client's history; front ends send more than is read here."""

    model_config = {"extra": "ignore"}
    role: Annotated[str, Field(max_length=32)]
    content: Text | list[Part] | None = None

    @property
    def text(self) -> str:
        """Its text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class Completion(BaseModel):
    """A request of Chat Completions; temperature, tools and the like are taken and mean nothing here."""

    model_config = {"extra": "ignore"}
    model: Annotated[str, Field(max_length=300), AfterValidator(_printable)] = MODEL
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool = False
    stream_options: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one answer is made of."""

    asking: Asking
    case: Case
    question: str
    history: Sequence[Message]
    model: str
    id: str
    created_s: int
    is_over: Callable[[], bool]


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["openai"], dependencies=[READ])
    routes.add_api_route(
        "/models", list_models, methods=["GET"], operation_id="list_models", response_class=Json
    )
    routes.add_api_route(
        "/chat/completions",
        post_chat_completion,
        methods=["POST"],
        operation_id="post_chat_completion",
        dependencies=[INVESTIGATE],
        response_class=Json,
        responses={200: {"model": Document}, "4XX": {"model": Document}},  # errors in OpenAI's form
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    )
    return routes


def list_models(*, asking: AskingOf, service: ServiceOf) -> Response:
    """`argus` answers about the run heard of last, `argus/RUN` about that run."""
    names = [MODEL, *(f"{PREFIX}{run}" for run in asking.toolbox.facts.runs()[:MAX_MODELS])]
    created_s = int(service.clock())
    data = [{"id": name, "object": "model", "created": created_s, "owned_by": MODEL} for name in names]
    return Json({"object": "list", "data": data})


async def post_chat_completion(
    request: Request, *, asking: AskingOf, service: ServiceOf, desk: DeskOf
) -> Response:
    """The agent's answer to the last message of the user, those before it as history."""
    try:
        asked = Completion.model_validate(json.loads(await request.body()))
    except (ValidationError, ValueError, RecursionError) as error:
        return _fault(400, _reason(error))
    said = [message for message in asked.messages if message.role in ("user", "assistant")]
    if not said or said[-1].role != "user" or not said[-1].text.strip():
        return _fault(400, "the last message must be a user's and hold text")
    if is_full(desk):
        return _fault(503, FULL)
    with answering(desk):
        try:
            case = await to_thread.run_sync(_case, asking, asked.model, said[-1].text)
        except Unknown as error:
            return _fault(404, str(error))
        turn = _turn(asked, said, asking=asking, case=case, service=service)
        if not asked.stream:
            return await _whole(turn)
    wants_usage = bool((asked.stream_options or {}).get("include_usage"))
    return sse.streamed(_chunks(turn, desk=desk, wants_usage=wants_usage))


def _turn(
    asked: Completion, said: Sequence[ChatMessage], *, asking: Asking, case: Case, service: Service
) -> Turn:
    before = [Message(role=one.role, content=question_of(one.text)) for one in said[:-1] if one.text.strip()]
    return Turn(
        asking=asking,
        case=case,
        question=question_of(said[-1].text),
        history=before[-MAX_HISTORY:],
        model=asked.model,
        id=f"chatcmpl-{secrets.token_hex(12)}",
        created_s=int(service.clock()),
        is_over=lambda: service.board.is_closed,
    )


async def _whole(turn: Turn) -> Response:
    try:
        text, usage = await sse.whole(_answer(turn, lambda step: None, has_lead=False), is_over=turn.is_over)
    except sse.Stopped as error:
        return _fault(503, str(error))
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return Json({**_head(turn, "chat.completion"), "choices": [choice], "usage": usage})


def _case(asking: Asking, model: str, question: str) -> Case:
    """The incident that the question names, else that of the run that the model names. Raises Unknown."""
    named = _INCIDENT.search(question)
    run = model.removeprefix(PREFIX) if model.startswith(PREFIX) else None
    if model not in (MODEL, "") and run is None:
        raise Unknown(f"no model {model[:80]!r}; there are {MODEL} and {PREFIX}RUN")
    if named is not None and asking.toolbox.facts.incident(named[0]) is not None:
        return asking.case(run=None, incident=named[0])
    return asking.case(run=run, incident=None)


async def _answer(turn: Turn, watch: Any, *, has_lead: bool) -> tuple[str, Object]:
    """The answer's text after the triage's verdict, or the triage's where the model has none, and what it took.

    `has_lead`: the verdict is said already.
    """
    answered: Answered = await turn.asking.agent.answer(
        turn.asking.toolbox, turn.case, question=turn.question, history=turn.history, watch=watch
    )
    text = (replace(answered, lead="") if has_lead else answered).said
    if not text:
        lines = await to_thread.run_sync(_triage, turn)
        text = f"{answered.note}\n\n{lines}".strip()
    spent = answered.spent
    completion = spent.completion_tokens or tokens_of(text)
    usage = {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": spent.prompt_tokens + completion,
    }
    return text, usage


def _triage(turn: Turn) -> str:
    return "\n".join(why_lines(turn.case, turn.case.diagnosis, turn.asking.toolbox.book))


def _first(turn: Turn) -> str:
    """What is there before any model is asked; without a model it is the answer itself."""
    if turn.asking.agent.endpoint is None:
        return ""
    return f"{lead_of(turn.case)}\n\n"


async def _chunks(turn: Turn, *, desk: Desk, wants_usage: bool) -> AsyncIterator[bytes]:
    """The answer as chunks: what the triage says, comments while the agent works, the text line by line, the end."""

    async def work(push: sse.Push) -> tuple[str, object]:
        def seen(step: Step) -> None:
            push("step", None)

        return "answer", await _answer(turn, seen, has_lead=True)

    yield _chunk(turn, {"role": "assistant", "content": _first(turn)})
    with answering(desk):
        async for raw in sse.live(work, is_over=turn.is_over):
            if raw.startswith((b"event: answer\n", b"event: error\n")):
                said = json.loads(raw.partition(b"data: ")[2])
                for chunk in _told(turn, said, wants_usage=wants_usage):
                    yield chunk
            else:
                yield b": the agent works\n\n"
    yield b"data: [DONE]\n\n"


def _told(turn: Turn, said: Any, *, wants_usage: bool) -> Iterator[bytes]:
    """The text line by line and what it took, or the error that there was instead."""
    if isinstance(said, dict):
        yield _data(
            {"error": {"message": said["detail"], "type": "server_error", "param": None, "code": None}}
        )
        return
    text, usage = said
    for line in text.splitlines(keepends=True):
        yield _chunk(turn, {"content": line})
    yield _chunk(turn, {}, finish="stop")
    if wants_usage:
        yield _data({**_head(turn, "chat.completion.chunk"), "choices": [], "usage": usage})


def _chunk(turn: Turn, delta: Object, *, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({**_head(turn, "chat.completion.chunk"), "choices": [choice]})


def _data(body: Object) -> bytes:
    return f"data: {dump(body)}\n\n".encode()


def _head(turn: Turn, kind: str) -> Object:
    return {"id": turn.id, "object": kind, "created": turn.created_s, "model": turn.model}


def _fault(status: int, text: str) -> JSONResponse:
    """An error in OpenAI's form: that is what these clients read."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    error = {"message": text, "type": kind, "param": None, "code": None}
    return Json({"error": error}, status_code=status, headers=headers)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return "the body must be a JSON object of Chat Completions"
