"""The seam between the logic of a conversation and its I/O: effects asked for, answers heard."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from argus.agent.evidence import ToolResult
from argus.agent.model.message import Ask, ModelError, Reply

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class UseTool:
    """Have a tool called."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something a user who watches may want to see; nothing is answered to it.

    `what`: asking, calling, called, refused, repaired, budget, failed, answered.
    """

    what: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


Effect = Ask | UseTool | Step


@dataclass(frozen=True, kw_only=True)
class Heard:
    """The answer to an effect, and the seconds since the conversation began."""

    value: Reply | ModelError | ToolResult | None
    at_s: float


Course = Generator[Effect, Heard, T]
"""Logic without I/O: yields effects, is sent what came of them, returns its result."""
