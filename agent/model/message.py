"""What is said between us and a model, in a form no endpoint's habits show in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BYTES_PER_TOKEN = 4
"""Where the server reports no usage, a token counts as four bytes."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call the model asks for; `error` says why its arguments could not be read (they are empty then)."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One entry of the conversation; `calls` and `reasoning` are an assistant's, `call_id` a tool's.

    `is_kept` = it stays whole however little room there is: instructions, and the question.
    """

    role: str
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""
    is_kept: bool = False


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one request; counted by us where the server does not say."""

    prompt_tokens: int
    completion_tokens: int
    is_estimated: bool = False


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request to a model. Without `tools` it can only answer in words, of the JSON `schema` where one is given."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 1024
    timeout_s: float = 60.0

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the tools that may be called."""
        return frozenset(str(tool["function"]["name"]) for tool in self.tools)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model said. `finish` as the server gave it, "" if it gave none; `num_retries` went before it."""

    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage = Usage(prompt_tokens=0, completion_tokens=0, is_estimated=True)
    finish: str = "stop"
    num_retries: int = 0

    @property
    def is_cut(self) -> bool:
        """The server ran out of the tokens it was given."""
        return self.finish == "length"


class ModelError(Exception):
    """The model could not be asked, or did not answer like one; `kind` is one of KINDS, the text one sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        assert kind in KINDS, kind
        super().__init__(sentence)
        self.kind = kind


KINDS = (
    "auth",
    "no_model",
    "context",
    "rate_limit",
    "timeout",
    "unreachable",
    "server",
    "not_an_api",
    "refused",
    "malformed",
)
"""Why a request to a model fails."""


def tokens_of(text: str) -> int:
    """Tokens of a text as we count them.

    >>> tokens_of("µs in a row")
    3
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
