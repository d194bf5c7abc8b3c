"""OpenTelemetry spans of the generative-AI conventions, where the application has set up a tracer; else nothing.

The content of messages never goes into a span: it is the job's telemetry and the user's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from argus.agent.evidence import ToolResult
from argus.agent.loop.course import Effect, UseTool
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply

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

    def __init__(self, made: object) -> None:
        self._made = made

    def tell(self, attributes: Attributes) -> None:
        """Set attributes."""
        set_attributes = getattr(self._made, "set_attributes", None)
        if set_attributes is not None:
            set_attributes(dict(attributes))


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
        }
    return None


def told(value: Reply | ModelError | ToolResult | None) -> Attributes:
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
