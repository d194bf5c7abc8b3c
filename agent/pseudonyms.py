"""Other names for hosts towards the model, taken back in what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from argus.agent.model.message import Ask, Message, Reply, ToolCall


@dataclass(frozen=True, kw_only=True)
class Pseudonyms:
    """A one-to-one map of names; build it with `pseudonyms_of`."""

    names: Mapping[str, str]

    @cached_property
    def _hide(self) -> re.Pattern[str]:
        return _any_of(self.names)

    @cached_property
    def _real(self) -> Mapping[str, str]:
        return {other: name for name, other in self.names.items()}

    @cached_property
    def _show(self) -> re.Pattern[str]:
        return _any_of(self._real)

    def hide_text(self, text: str) -> str:
        """The text as the model may see it."""
        return self._hide.sub(lambda match: self.names[match[0]], text) if self.names else text

    def show_text(self, text: str) -> str:
        """The model's text with the real names."""
        return self._show.sub(lambda match: self._real[match[0]], text) if self.names else text

    def hide(self, ask: Ask) -> Ask:
        """A request with the other names."""
        return replace(ask, messages=tuple(self._hidden(message) for message in ask.messages))

    def show(self, reply: Reply) -> Reply:
        """A reply with the real names."""
        calls = tuple(replace(call, arguments=self._shown(call.arguments)) for call in reply.calls)
        return replace(
            reply,
            content=self.show_text(reply.content),
            reasoning=self.show_text(reply.reasoning),
            calls=calls,
        )

    def _hidden(self, message: Message) -> Message:
        calls = tuple(self._hidden_call(call) for call in message.calls)
        return replace(
            message,
            content=self.hide_text(message.content),
            reasoning=self.hide_text(message.reasoning),
            calls=calls,
        )

    def _hidden_call(self, call: ToolCall) -> ToolCall:
        return replace(call, arguments=_mapped(call.arguments, self.hide_text))

    def _shown(self, arguments: Mapping[str, Any]) -> Any:
        return _mapped(arguments, self.show_text)


def pseudonyms_of(hosts: Iterable[str]) -> Pseudonyms:
    """Numbered names for hosts, none of them a host's real one.

    >>> pseudonyms_of(["db-7.corp", "gpu1"]).hide_text("nic:gpu1/mlx5_0")
    'nic:host0002/mlx5_0'
    """
    known = sorted(set(hosts) - {""})
    free = (name for number in range(1, 2 * len(known) + 2) if (name := f"host{number:04d}") not in known)
    return Pseudonyms(names=dict(zip(known, free, strict=False)))


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Whole names, the longest first: gpu1 is no part of gpu12, but of nic:gpu1/mlx5_0."""
    longest = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest))})(?![\w-]|\.\w)")


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return value
