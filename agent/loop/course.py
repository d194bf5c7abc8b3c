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
    call_id: str = ""


@dataclass(frozen=True, kw_only=True)
class LookAgain:
    """Have the analysis look at the incident anew, with everything that is known by now.

    Answered with the diagnosis it comes to, None where there is none.
    """


WHATS = ("asking", "calling", "called", "refused", "repaired", "looking", "answered")
"""Kinds of steps: of them `calling` has the arguments as details, `called` evidence, status and note."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something a user who watches may want to see, one of `WHATS`; nothing is answered to it."""

    what: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


Effect = Ask | UseTool | LookAgain | Step

Met = Reply | ModelError | ToolResult | Mapping[str, Any] | None
"""What may come of an effect."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """The answer to an effect, and the seconds since the conversation began."""

    value: Met
    at_s: float


Course = Generator[Effect, Heard, T]
"""Logic without I/O: yields effects, is sent what came of them, returns its result."""
