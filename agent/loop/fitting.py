"""Keeping a conversation inside the model's context window: we cut, so that the server never has to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from argus.agent.model.message import Message, ModelError, tokens_of
from argus.agent.model.reading import message_tokens

MIN_WINDOW_TOKENS = 8192
"""Instructions, tools and the first view take six thousand tokens; below this nothing could be looked up."""

SPARE = 0.05
"""Share of the window kept free: our count of tokens is not the server's."""

CUT_NOTE = "[cut from view to make room; its evidence id is {id}: call the tool again to see it]"
_ID = "ev-"


def room_of(window_tokens: int, *, reply_tokens: int, tools: Sequence[Mapping[str, Any]]) -> int:
    """Tokens that messages may take. Raises ModelError if the window is too small to work in."""
    if window_tokens < MIN_WINDOW_TOKENS:
        raise ModelError(
            "context",
            f"the model's context of {window_tokens} tokens is too small, {MIN_WINDOW_TOKENS} are the least",
        )
    schemas = tokens_of(json.dumps(list(tools), separators=(",", ":"))) if tools else 0
    return int(window_tokens * (1 - SPARE)) - reply_tokens - schemas


def fit(messages: Sequence[Message], room_tokens: int) -> tuple[Message, ...]:
    """The messages with the oldest results shortened, then dropped with their calls, until they fit.

    What is kept by its mark stays whole. So does the last exchange, and where even that does not fit, its last result.
    """
    kept = list(messages)
    _shorten(kept, range(_last_exchange(kept)), room_tokens)
    while _total(kept) > room_tokens and (first := _first_loose(kept)) < _last_exchange(kept):
        del kept[first : _next_exchange(kept, first)]
    last = [at for at in range(_last_exchange(kept), len(kept)) if kept[at].role == "tool"]
    _shorten(kept, last[:-1], room_tokens)
    return tuple(kept)


def can_fit(messages: Sequence[Message], room_tokens: int) -> bool:
    """Whether the messages fit once all is cut that may be."""
    return _total(fit(messages, room_tokens)) <= room_tokens


def _shorten(kept: list[Message], places: Iterable[int], room_tokens: int) -> None:
    """Put a note in place of one result after the other, until all fits."""
    for at in places:
        if _total(kept) <= room_tokens:
            return
        if kept[at].role == "tool":
            kept[at] = replace(kept[at], content=CUT_NOTE.format(id=_id_in(kept[at].content)))


def _total(messages: Sequence[Message]) -> int:
    return sum(message_tokens(message.content, message.calls) for message in messages)


def _last_exchange(messages: Sequence[Message]) -> int:
    """Where the last assistant's message with its results begins."""
    return next(
        (at for at in reversed(range(len(messages))) if messages[at].role == "assistant"), len(messages)
    )


def _first_loose(messages: Sequence[Message]) -> int:
    """The oldest message that may go."""
    return next((at for at, message in enumerate(messages) if not message.is_kept), len(messages))


def _next_exchange(messages: Sequence[Message], at: int) -> int:
    """The first message after `at` that does not belong to it."""
    end = at + 1
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    return end


def _id_in(content: str) -> str:
    at = content.find(_ID)
    return content[at : at + 19] if at >= 0 else "unknown"
