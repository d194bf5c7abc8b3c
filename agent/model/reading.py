"""A server's answer as a `Reply`, whatever habits it has."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeGuard

from argus.agent.model.arguments import read_arguments
from argus.agent.model.failures import tidy
from argus.agent.model.message import Ask, ModelError, Reply, ToolCall, Usage, tokens_of
from argus.agent.model.spoken_calls import split_thoughts, spoken_calls

MAX_CONTENT = 100_000
"""Characters of an answer that are looked at: an honest one has a tenth of that, what is longer is a runaway server's."""

MAX_NAME = 64
"""Characters of a tool's name: what the protocol allows."""

MAX_TOKENS = 100_000_000
"""Tokens of one request or one window that are believed: ten times the largest context there is. What is beyond counts as
not told."""

UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"))
"""Categories of characters of which alone nothing can be seen: blanks, controls, joiners, marks on another character."""

BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that are empty all the same: fillers of Hangul, the Braille pattern without dots."""

NOT_AN_API = (
    "the endpoint answers, but not like an OpenAI API: is its URL right, is there a proxy's page in front?"
)


def read_completion(raw: object, ask: Ask) -> Reply:
    """Reply of a completion that was not streamed, as a mapping. Raises ModelError."""
    if not isinstance(raw, Mapping):
        raise ModelError("not_an_api", NOT_AN_API)
    if raw.get("error"):
        raise ModelError("server", f"the endpoint reports an error: {_error_text(raw['error'])}")
    choices = raw.get("choices")
    if "choices" in raw and choices in (None, [], [None]):
        raise ModelError("malformed", "the endpoint's answer is empty: the model gave nothing")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ModelError("not_an_api", NOT_AN_API)
    message = choices[0].get("message")
    if not isinstance(message, Mapping):
        raise ModelError("malformed", "the model's answer holds no message")
    return reply_of(
        content=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        calls=_calls(message),
        finish=str(choices[0].get("finish_reason") or ""),
        usage=raw.get("usage"),
        ask=ask,
        is_refusal=bool(_text(message.get("refusal")).strip()),
    )


def reply_of(
    *,
    content: str,
    reasoning: str,
    calls: Iterable[ToolCall],
    finish: str,
    usage: object,
    ask: Ask,
    is_refusal: bool,
) -> Reply:
    """A reply from its parts: calls found in the text join the others, missing ids are minted.

    Raises ModelError for a refusal (the protocol's field of that name) or a filtered answer, where nothing else came.
    """
    text, thoughts = split_thoughts(content[:MAX_CONTENT])
    given = list(calls)
    if not given:
        spoken, text = spoken_calls(text, ask.tool_names)
        given = [ToolCall(id="", name=name, arguments=args, error=error) for name, args, error in spoken]
    text = text if is_visible(text) else ""
    if finish == "content_filter" and not text and not given:
        raise ModelError("refused", "the endpoint's filter kept the model's answer back")
    if is_refusal and not text.strip() and not given:
        raise ModelError("refused", "the model refuses to answer")
    return Reply(
        content=text,
        reasoning=reasoning[:MAX_CONTENT] or thoughts,
        calls=tuple(_with_ids(given, taken=_ids_of(ask))),
        finish=finish,
        usage=_usage(usage, ask, said=content + reasoning + "".join(str(call.arguments) for call in given)),
    )


def is_visible(text: str) -> bool:
    """Whether anything of a text can be seen.

    >>> is_visible("3."), is_visible("\u200b \ufeff")
    (True, False)
    """
    return any(c not in BLANKS and unicodedata.category(c) not in UNSEEN for c in text)


def tool_call(*, call_id: object, name: object, arguments: object) -> ToolCall:
    """A call from unchecked fields."""
    read, error = read_arguments(arguments)
    return ToolCall(
        id=call_id if isinstance(call_id, str) else "",
        name=name.strip()[:MAX_NAME] if isinstance(name, str) else "",
        arguments=read,
        error=error,
    )


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    raw = message.get("tool_calls")
    found = []
    for item in raw if isinstance(raw, list) else ():
        function = item.get("function") if isinstance(item, Mapping) else None
        if isinstance(function, Mapping):
            found.append(
                tool_call(
                    call_id=item.get("id"), name=function.get("name"), arguments=function.get("arguments")
                )
            )
    old = message.get("function_call")  # servers of before 2024
    if not found and isinstance(old, Mapping):
        found.append(tool_call(call_id=None, name=old.get("name"), arguments=old.get("arguments")))
    return found


def _with_ids(calls: Iterable[ToolCall], *, taken: AbstractSet[str]) -> Iterable[ToolCall]:
    """Nine letters and digits: what the strictest server takes."""
    seen = set(taken)
    for call in calls:
        new, number = call.id, len(seen)
        while not new or new in seen:
            new, number = f"call{number:05d}", number + 1
        seen.add(new)
        yield ToolCall(id=new, name=call.name, arguments=call.arguments, error=call.error)


def _ids_of(ask: Ask) -> frozenset[str]:
    return frozenset(call.id for message in ask.messages for call in message.calls)


def _usage(raw: object, ask: Ask, *, said: str) -> Usage:
    if isinstance(raw, Mapping):
        prompt, completion = raw.get("prompt_tokens"), raw.get("completion_tokens")
        if is_count(prompt) and is_count(completion):
            return Usage(prompt_tokens=prompt, completion_tokens=completion)
    return Usage(prompt_tokens=ask_tokens(ask), completion_tokens=tokens_of(said), is_estimated=True)


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a number of tokens that can be."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


def counted(reply: Reply, ask: Ask) -> Reply:
    """The reply with its tokens counted by us where nobody else did."""
    if reply.usage.prompt_tokens or not reply.usage.is_estimated:
        return reply
    said = reply.content + reply.reasoning + "".join(str(call.arguments) for call in reply.calls)
    return replace(reply, usage=_usage(None, ask, said=said))


def ask_tokens(ask: Ask) -> int:
    """Tokens of a whole request as we count them."""
    return sum(message_tokens(message.content, message.calls) for message in ask.messages) + tools_tokens(ask)


def message_tokens(content: str, calls: Iterable[ToolCall] = ()) -> int:
    """Tokens of one message; a few for its frame."""
    return 4 + tokens_of(content) + sum(tokens_of(f"{call.name}{dict(call.arguments)}") for call in calls)


def tools_tokens(ask: Ask) -> int:
    """Tokens of the tools' schemas."""
    return tokens_of(json.dumps(list(ask.tools), separators=(",", ":"))) if ask.tools else 0


def _text(value: object) -> str:
    """Content as text; servers send a string, null or a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, Mapping))
    return ""


def _error_text(error: object) -> str:
    text = error.get("message") if isinstance(error, Mapping) else error
    return tidy(str(text))
