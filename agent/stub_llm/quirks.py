"""Habits of real servers, each by name: what breaks clients that trust the protocol."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.agent.stub_llm.protocol import Json, chunks

ONCE = "-once"
"""Ending of a quirk's name: only the first answer has it."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer instead of a completion. `body` None: the connection is closed without a word."""

    status: int = 400
    body: str | None = ""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def _error(status: int, message: str, **headers: str) -> Refusal:
    return Refusal(status=status, body=json.dumps({"error": {"message": message}}), headers=headers)


Body = Mapping[str, Any]


def _if_sent(name: str, message: str) -> Callable[[Body], Refusal | None]:
    return lambda body: _error(400, message) if f'"{name}"' in json.dumps(body) else None


def _reasoning_required(body: Body) -> Refusal | None:
    lacking = any(m.get("tool_calls") and "reasoning_content" not in m for m in body["messages"])
    return _error(400, "The reasoning_content in the thinking mode must be passed back") if lacking else None


def _no_tools(message: str, status: int = 400) -> Callable[[Body], Refusal | None]:
    return lambda body: _error(status, message) if body.get("tools") else None


def _format_with_tools(body: Body) -> Refusal | None:
    both = body.get("tools") and body.get("response_format")
    return _error(400, "response_format together with tools") if both else None


REFUSALS: Mapping[str, Callable[[Body], Refusal | None]] = {
    "html": lambda _: Refusal(status=200, body="<html><h1>Sign in</h1></html>", content_type="text/html"),
    "not-json": lambda _: Refusal(status=200, body="{not json"),
    "drop": lambda _: Refusal(body=None),
    "http-401": lambda _: _error(401, "Incorrect API key provided: sk-abcdef123456"),
    "http-404": lambda _: _error(404, "The model `none` does not exist"),
    "http-429": lambda _: _error(429, "Rate limit reached", **{"Retry-After": "60"}),
    "http-429-short": lambda _: _error(429, "Rate limit reached", **{"Retry-After": "0"}),
    "http-500": lambda _: _error(500, "CUDA error: out of memory"),
    "context": lambda _: _error(400, "This model's maximum context length is 4096 tokens"),
    "error-body": lambda _: Refusal(status=200, body='{"error": {"message": "engine died"}}'),
    "vllm-no-tools": _no_tools('"auto" tool choice requires --enable-auto-tool-choice to be set'),
    "llamacpp-no-tools": _no_tools("tools param requires --jinja flag", 500),
    "refuses-temperature": _if_sent("temperature", "Unsupported value: 'temperature' does not support 0"),
    "refuses-max-tokens": _if_sent("max_tokens", "Unsupported parameter: 'max_tokens'"),
    "refuses-strict": _if_sent("strict", "tools.0.function.strict: Extra inputs are not permitted"),
    "refuses-parallel": _if_sent("parallel_tool_calls", "parallel_tool_calls is not supported"),
    "refuses-reasoning": _if_sent("reasoning_content", "messages: unknown field reasoning_content"),
    "reasoning-required": _reasoning_required,
    "format-with-tools": _format_with_tools,
}
"""By name: what stands in the way of an answer, None if nothing does for this request."""


def _message(whole: Json) -> Json:
    message: Json = whole["choices"][0]["message"]
    return message


def _finish_stop(whole: Json) -> None:
    whole["choices"][0]["finish_reason"] = "stop"


def _dict_arguments(whole: Json) -> None:
    for call in _message(whole).get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])


def _broken_arguments(whole: Json) -> None:
    for call in _message(whole).get("tool_calls", ()):
        call["function"]["arguments"] = call["function"]["arguments"][:-1] + ', "x": '


def _trailing_comma(whole: Json) -> None:
    for call in _message(whole).get("tool_calls", ()):
        call["function"]["arguments"] = call["function"]["arguments"][:-1] + ",}"


def _no_ids(whole: Json) -> None:
    for call in _message(whole).get("tool_calls", ()):
        del call["id"], call["type"]


def _bare(whole: Json) -> None:
    message = {key: value for key, value in _message(whole).items() if key in ("content", "tool_calls")}
    whole.clear()
    whole["choices"] = [{"message": message}]


def _in_text(form: str) -> Callable[[Json], None]:
    def write(whole: Json) -> None:
        message = _message(whole)
        calls = message.pop("tool_calls", ())
        texts = [
            form.format(
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
                whole=json.dumps(
                    {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
                ),
            )
            for call in calls
        ]
        message["content"] = "\n".join([message["content"] or "I will look.", *texts])
        _finish_stop(whole)

    return write


def _length(whole: Json) -> None:
    whole["choices"][0]["finish_reason"] = "length"
    message = _message(whole)
    message["content"] = (message["content"] or "")[:10]
    message.pop("tool_calls", None)


def _think(whole: Json) -> None:
    message = _message(whole)
    message["content"] = f"<think>It could be rank 3.</think>{message['content'] or ''}"


def _parts(whole: Json) -> None:
    message = _message(whole)
    message["content"] = [{"type": "text", "text": ""}, {"type": "text", "text": message["content"] or ""}]


def _reasoning(whole: Json) -> None:
    _message(whole)["reasoning_content"] = "It could be rank 3."


HABITS: Mapping[str, Callable[[Json], None]] = {
    "finish-stop": _finish_stop,
    "dict-arguments": _dict_arguments,
    "broken-arguments": _broken_arguments,
    "trailing-comma": _trailing_comma,
    "no-ids": _no_ids,
    "bare": _bare,
    "tagged-calls": _in_text("<tool_call>\n{whole}\n</tool_call>"),
    "fenced-calls": _in_text("```json\n{whole}\n```"),
    "function-tags": _in_text("<function={name}>{arguments}</function>"),
    "mistral-calls": _in_text("[TOOL_CALLS] [{whole}]"),
    "length": _length,
    "think": _think,
    "content-parts": _parts,
    "reasoning": _reasoning,
}
"""By name: what is done to a completion."""


def _each_call(stream: Iterable[Json], change: Callable[[Json], None]) -> list[Json]:
    out = []
    for chunk in map(copy.deepcopy, stream):
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                change(call)
        out.append(chunk)
    return out


def _no_index(stream: list[Json]) -> list[Json]:
    return _each_call(stream, lambda call: call.pop("index", None))


def _same_index(stream: list[Json]) -> list[Json]:
    return _each_call(stream, lambda call: call.update(index=0))


def _whole_call(stream: list[Json]) -> list[Json]:
    """Every call in one delta, and finish `stop`."""
    first, last = stream[0], stream[-2]
    calls: dict[int, Json] = {}
    for chunk in stream:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                known = calls.setdefault(call["index"], {**call, "function": {**call["function"]}})
                if known["function"] is not call["function"] and "id" not in call:
                    known["function"]["arguments"] += call["function"]["arguments"]
    whole = copy.deepcopy(first)
    whole["choices"][0]["delta"] = {"tool_calls": list(calls.values())}
    end = copy.deepcopy(last)
    end["choices"][0]["finish_reason"] = "stop"
    texts = [c for c in stream[1:-2] if "content" in c["choices"][0]["delta"]]
    return [first, *texts, *([whole] if calls else []), end]


def _error_midway(stream: list[Json]) -> list[Json]:
    return [*stream[: len(stream) // 2], {"error": {"message": "engine died"}}]


def _silent_end(stream: list[Json]) -> list[Json]:
    return stream[:-2]


STREAMS: Mapping[str, Callable[[list[Json]], list[Json]]] = {
    "stream-no-index": _no_index,
    "stream-same-index": _same_index,
    "stream-whole-call": _whole_call,
    "stream-error": _error_midway,
    "stream-silent-end": _silent_end,
    "stream-comments": lambda stream: stream,
}
"""By name: what is done to the chunks; `stream-comments` puts `: ping` between them."""

SLOW = "slow"
"""The quirk of answering only after some seconds."""

QUIRKS = (*REFUSALS, *HABITS, *STREAMS, SLOW)


def check_quirks(names: Iterable[str]) -> tuple[str, ...]:
    """The names, if all are known. Raises ValueError."""
    given = tuple(names)
    for name in given:
        if name.removesuffix(ONCE) not in QUIRKS:
            raise ValueError(f"no quirk {name!r}; there are {', '.join(QUIRKS)}, each also with {ONCE}")
    return given


def refusal_of(names: Iterable[str], body: Body) -> Refusal | None:
    """The first refusal among the quirks that applies."""
    found = (REFUSALS[name](body) for name in names if name in REFUSALS)
    return next((refusal for refusal in found if refusal is not None), None)


def with_habits(names: Iterable[str], whole: Json) -> Json:
    """A completion with the quirks' habits."""
    changed = copy.deepcopy(whole)
    for name in names:
        if name in HABITS:
            HABITS[name](changed)
    return changed


def streamed(names: Iterable[str], whole: Json) -> list[Json]:
    """The chunks of a completion with the quirks' habits; what cannot be streamed any more goes out whole."""
    stream = list(chunks(whole))
    for name in names:
        if name in STREAMS:
            stream = STREAMS[name](stream)
    return stream
