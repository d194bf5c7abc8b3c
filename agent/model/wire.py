"""A request in the words of the Chat Completions protocol, as a profile wants them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from argus.agent.model.message import Ask, Message
from argus.agent.model.profile import Profile
from argus.analytics.store.documents import dump


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A profile with what this server has refused since; only ever loses what is optional."""

    profile: Profile
    refused: frozenset[str] = field(default=frozenset())

    def without(self, name: str) -> Dialect:
        """The dialect of a server that does not take `name`."""
        return replace(self, refused=self.refused | {name})

    @property
    def max_tokens_field(self) -> str:
        """The name under which the server takes the limit, "" if it takes none."""
        names = dict.fromkeys((self.profile.max_tokens_field, "max_tokens", "max_completion_tokens"))
        return next((name for name in names if name not in self.refused), "")


OPTIONAL = (
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "strict",
    "parallel_tool_calls",
    "reasoning_content",
    "tool_choice",
    "stream_options",
    "response_format",
)
"""What a server may refuse and we can do without."""


def refusable(text: str, dialect: Dialect, sent: Mapping[str, Any]) -> str:
    """The optional part of `sent` that an error message complains of, "" if it is none.

    >>> refusable("Unsupported parameter: 'temperature'", Dialect(profile=Profile(name="x")), {"temperature": 0})
    'temperature'
    """
    present = json.dumps(sent, default=str)
    for name in OPTIONAL:
        if name in text and name not in dialect.refused and f'"{name}"' in present:
            return name
    return ""


def request_of(ask: Ask, dialect: Dialect, *, model: str, is_streamed: bool) -> dict[str, Any]:
    """Keyword arguments of `chat.completions.create`."""
    profile, refused = dialect.profile, dialect.refused
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, dialect) for message in ask.messages],
    }
    if limit := dialect.max_tokens_field:
        body[limit] = ask.max_tokens
    if profile.sampling and "temperature" not in refused:
        body["temperature"] = 0.0
    if ask.tools:
        body["tools"] = [
            _tool(tool, is_strict=profile.strict and "strict" not in refused) for tool in ask.tools
        ]
        if "tool_choice" not in refused:
            body["tool_choice"] = "auto"
        if profile.parallel is not None and "parallel_tool_calls" not in refused:
            body["parallel_tool_calls"] = profile.parallel
    elif ask.schema is not None and profile.response_format and "response_format" not in refused:
        # Never beside tools: several servers then stop calling them.
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(ask.schema)},
        }
    if is_streamed:
        body["stream"] = True
        if "stream_options" not in refused:
            body["stream_options"] = {"include_usage": True}
    return body


def _tool(tool: Mapping[str, Any], *, is_strict: bool) -> dict[str, Any]:
    function = {key: value for key, value in tool["function"].items() if key != "strict"}
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _message(message: Message, dialect: Dialect) -> dict[str, Any]:
    if message.role == "system":
        return {"role": dialect.profile.system_role, "content": message.content}
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    body: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": dump(call.arguments)},
            }
            for call in message.calls
        ]
        # Some servers answer 400 without it, others with it.
        if dialect.profile.reasoning_echo and "reasoning_content" not in dialect.refused:
            body["reasoning_content"] = message.reasoning
    return body
