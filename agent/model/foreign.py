"""What an endpoint sends, fit to be kept and shown: without our key, without halves of characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from argus.agent.model.message import Reply, ToolCall

MASK = "***"

MIN_KEY = 8
"""Characters of a key that is looked for: shorter ones are placeholders of local servers, and words of honest answers."""


def safe(value: Any, *, key: str) -> Any:
    """A value of JSON whose texts do not hold the endpoint's `key` and can be encoded. Raises RecursionError.

    >>> safe({"message": ["no such key: 0123456789", "\\ud800"]}, key="0123456789")
    {'message': ['no such key: ***', '?']}
    """
    if isinstance(value, str):
        text = value if value.isascii() else value.encode("utf-8", "replace").decode()
        return text.replace(key, MASK) if len(key) >= MIN_KEY else text
    if isinstance(value, Mapping):
        return {safe(name, key=key): safe(item, key=key) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [safe(item, key=key) for item in value]
    return value


def safe_reply(reply: Reply, *, key: str) -> Reply:
    """The same of a reply: arguments are read of a text, and a stream's text is put together of pieces."""
    return replace(
        reply,
        content=safe(reply.content, key=key),
        reasoning=safe(reply.reasoning, key=key),
        calls=tuple(_safe_call(call, key=key) for call in reply.calls),
    )


def _safe_call(call: ToolCall, *, key: str) -> ToolCall:
    try:
        arguments = safe(call.arguments, key=key)
        error = safe(call.error, key=key)
    except RecursionError:
        arguments, error = {}, "the arguments are nested too deeply"
    return ToolCall(
        id=safe(call.id, key=key), name=safe(call.name, key=key), arguments=arguments, error=error
    )
