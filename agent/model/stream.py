"""Collecting the chunks of a streamed answer: servers number their parts in their own ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.model.reading import reply_of, tool_call

MAX_STREAMED = 1_000_000
"""Characters of text, reasoning and arguments together, ten times what is kept of a reply: more is no answer any more."""


@dataclass(kw_only=True)
class _Part:
    """A tool call as far as it has come in."""

    index: int | None
    id: str
    name: str
    arguments: str = ""
    whole: Mapping[str, Any] | None = None


@dataclass(kw_only=True)
class Accumulator:
    """Takes chunks as mappings; `reply` when the stream has ended.

    A delta belongs to the call of its index; a new id or a new name beside the same index is a new call; without an
    index it belongs to the call of its id, else to the last one.
    """

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[_Part] = field(default_factory=list)
    finish: str = ""
    is_refusal: bool = False
    usage: object = None
    num_chars: int = 0

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one chunk in; the text it adds. Raises ModelError if the answer does not end."""
        if self.num_chars > MAX_STREAMED:
            raise ModelError("not_an_api", f"the model's answer is longer than {MAX_STREAMED} characters")
        if chunk.get("usage"):
            self.usage = chunk["usage"]
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return ""
        choice = choices[0]
        self.finish = str(choice.get("finish_reason") or "") or self.finish
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, Mapping):
            return ""
        for name, into in (("reasoning_content", self.reasoning), ("reasoning", self.reasoning)):
            if isinstance(delta.get(name), str):
                into.append(delta[name])
                self.num_chars += len(delta[name])
        refusal = delta.get("refusal")
        self.is_refusal |= isinstance(refusal, str) and bool(refusal.strip())
        calls = delta.get("tool_calls")
        for item in calls if isinstance(calls, list) else ():
            if isinstance(item, Mapping):
                self._add_call(item)
        text = delta.get("content")
        if not isinstance(text, str):
            return ""
        self.content.append(text)
        self.num_chars += len(text)
        return text

    def _add_call(self, item: Mapping[str, Any]) -> None:
        function = item.get("function")
        function = function if isinstance(function, Mapping) else {}
        index, call_id, name = item.get("index"), item.get("id") or "", function.get("name") or ""
        part = self._part_of(index, call_id, name)
        if part is None:
            part = _Part(index=index, id=call_id, name=name)
            self.calls.append(part)
        part.id, part.name = part.id or call_id, part.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            part.arguments += arguments
            self.num_chars += len(arguments)
        elif isinstance(arguments, Mapping):
            part.whole = arguments

    def _part_of(self, index: int | None, call_id: str, name: str) -> _Part | None:
        if index is None:
            same = [part for part in self.calls if part.id == call_id] if call_id else self.calls[-1:]
        else:
            same = [part for part in self.calls if part.index == index]
        part = same[-1] if same else None
        if part is None or (call_id and part.id and call_id != part.id):
            return None
        # The name again with every delta is one call; another name, or the name after arguments without id, is a new one.
        is_other = bool(name and part.name and name != part.name)
        is_next = bool(name and not call_id and index is None and (part.arguments or part.whole))
        return None if is_other or is_next else part

    def reply(self, ask: Ask) -> Reply:
        """The whole answer. Raises ModelError if the stream broke off."""
        if not self.finish:
            raise ModelError("malformed", "the model's answer broke off in the middle")
        calls = [
            tool_call(
                call_id=part.id,
                name=part.name,
                arguments=part.arguments if part.whole is None else part.whole,
            )
            for part in self.calls
        ]
        return reply_of(
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            calls=calls,
            finish=self.finish,
            usage=self.usage,
            ask=ask,
            is_refusal=self.is_refusal,
        )
