"""What a scripted model can read of a conversation: the pages of evidence, the tools, how far it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from argus.agent.model.message import Ask, Reply, ToolCall

_FENCED = re.compile(r"<data (\w+)>\n(.*?)\n</data \1>", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of evidence as the model saw it."""

    id: str
    status: str
    data: Mapping[str, Any]


def pages(ask: Ask) -> list[Page]:
    """Every page in the conversation, in order."""
    return [page for message in ask.messages for page in _pages(message.content)]


def _pages(content: str) -> Iterator[Page]:
    for _, text in _FENCED.findall(content):
        try:
            raw = json.loads(text)
        except ValueError:
            continue
        if isinstance(raw, dict) and isinstance(raw.get("data"), dict) and "evidence" in raw:
            yield Page(id=str(raw["evidence"]), status=str(raw.get("status")), data=raw["data"])


def triage_of(ask: Ask) -> Page | None:
    """The triage's page."""
    return next((page for page in pages(ask) if "verdict" in page.data), None)


def num_turns(ask: Ask) -> int:
    """Replies of the model so far to the last question."""
    last = max((at for at, m in enumerate(ask.messages) if m.role == "user" and m.is_kept), default=0)
    return sum(message.role == "assistant" for message in ask.messages[last:])


def blank_call(ask: Ask, name: str, **given: Any) -> ToolCall | None:
    """A call of a tool with null for what is not given; None if the tool is not offered."""
    tool = next((tool for tool in ask.tools if tool["function"]["name"] == name), None)
    if tool is None:
        return None
    names = tool["function"]["parameters"].get("properties", {})
    return ToolCall(id="", name=name, arguments={**dict.fromkeys(names), **given})


def calling(*calls: ToolCall | None, content: str = "") -> Reply:
    """A reply that calls tools."""
    made = tuple(
        ToolCall(id=f"stub{at:05d}", name=call.name, arguments=call.arguments)
        for at, call in enumerate(call for call in calls if call is not None)
    )
    return Reply(content=content, calls=made, finish="tool_calls" if made else "stop")


def saying(text: str) -> Reply:
    """A reply in words."""
    return Reply(content=text, finish="stop")
