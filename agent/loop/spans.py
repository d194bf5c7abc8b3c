"""OpenTelemetry spans of the generative-AI conventions, where the application has set up a tracer; else nothing.

The content of messages never goes into a span: it is the job's telemetry and the user's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from argus.agent.evidence import ToolResult
from argus.agent.loop.course import Effect, Met, UseTool
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply

if TYPE_CHECKING:
    from opentelemetry import trace

Attributes = Mapping[str, str | int | float | bool]

SCOPE = "argus.agent"


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[Span]:
    """A span around the block; without the opentelemetry API it is a no-op."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield Span(None)
        return
    with trace.get_tracer(SCOPE).start_as_current_span(name, attributes=dict(attributes)) as made:
        yield Span(made)


class Span:
    """What is set on a span when its block ends."""

    def __init__(self, made: trace.Span | None) -> None:
        self._made = made

    def tell(self, attributes: Attributes) -> None:
        """Set attributes; one that names an error makes the span a failed one."""
        if self._made is None:
            return
        self._made.set_attributes(dict(attributes))
        if "error.type" in attributes:
            from opentelemetry.trace import StatusCode

            self._made.set_status(StatusCode.ERROR)


def named(effect: Effect, endpoint: Endpoint, *, model: str) -> tuple[str, Attributes] | None:
    """Name and attributes of an effect's span; None for what is no operation."""
    if isinstance(effect, Ask):
        return f"chat {model}".strip(), {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": endpoint.profile.name,
            "gen_ai.request.model": model,
            "gen_ai.request.max_tokens": effect.max_tokens,
        }
    if isinstance(effect, UseTool):
        return f"execute_tool {effect.name[:64]}", {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": effect.name[:64],
            **({"gen_ai.tool.call.id": effect.call_id[:64]} if effect.call_id else {}),
        }
    return None


def told(value: Met) -> Attributes:
    """Attributes of what came of it."""
    if isinstance(value, Reply):
        return {
            "gen_ai.usage.input_tokens": value.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": value.usage.completion_tokens,
        }
    if isinstance(value, ModelError):
        return {"error.type": value.kind}
    if isinstance(value, ToolResult):
        return {"argus.tool.status": value.status, "argus.evidence.id": value.evidence_id}
    return {}
