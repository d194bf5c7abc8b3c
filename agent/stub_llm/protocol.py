"""The OpenAI protocol seen from the server: requests read, replies written whole or in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from argus.agent.model.message import Ask, Message, Reply, ToolCall, tokens_of

Json = dict[str, Any]


def read_request(body: Mapping[str, Any]) -> Ask:
    """A request as a script takes it. The last question counts as the kept one."""
    raw = [item for item in body.get("messages", ()) if isinstance(item, Mapping)]
    asked = max((at for at, item in enumerate(raw) if _is_question(item)), default=-1)
    return Ask(
        messages=tuple(_message(item, is_kept=at == asked) for at, item in enumerate(raw)),
        tools=tuple(body.get("tools") or ()),
        schema=(body.get("response_format") or {}).get("json_schema", {}).get("schema"),
        max_tokens=int(body.get("max_tokens") or body.get("max_completion_tokens") or 0),
    )


def _is_question(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "user" and str(item.get("content")).startswith("Question:")


def _message(item: Mapping[str, Any], *, is_kept: bool) -> Message:
    calls = tuple(
        ToolCall(
            id=str(call.get("id")),
            name=call["function"]["name"],
            arguments=json.loads(call["function"]["arguments"]),
        )
        for call in item.get("tool_calls") or ()
    )
    return Message(
        role=str(item.get("role")),
        content=str(item.get("content") or ""),
        calls=calls,
        call_id=str(item.get("tool_call_id") or ""),
        reasoning=str(item.get("reasoning_content") or ""),
        is_kept=is_kept,
    )


def completion(reply: Reply, *, model: str, prompt_tokens: int) -> Json:
    """A whole answer."""
    message: Json = {"role": "assistant", "content": reply.content or None}
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": (said := tokens_of(json.dumps(message))),
            "total_tokens": prompt_tokens + said,
        },
    }


def _call(call: ToolCall) -> Json:
    arguments = json.dumps(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


PIECE = 24
"""Characters of text or arguments in one chunk."""


def chunks(whole: Mapping[str, Any]) -> Iterator[Json]:
    """A whole answer in pieces, as a tidy server streams it."""
    choice = whole["choices"][0]
    message = choice["message"]
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(message.get("content") or ""):
        yield chunk({"content": piece})
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        first = {**call, "index": at, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [first]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": whole["usage"]}


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
