"""Spans of the generative-AI conventions, through OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from argus.agent.loop.limits import Limits
from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.api.agent import agent_of
from argus.api.settings import Settings
from argus.api.toolbox import Toolbox
from tests.agent.jobs import facts_of

export = pytest.importorskip("opentelemetry.sdk.trace.export", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

QUESTION = "Which rank is slow, and why?"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Where spans end up; the process's own provider stays as it is."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def asked(*, quirks: tuple[str, ...] = ()) -> None:
    """A question of a chat and an investigation."""
    box = Toolbox(facts=facts_of("slow_rank", ranks=8))
    with StubServer(SCRIPTS["confirm"], quirks=quirks) as server:
        agent, _ = agent_of(Settings(model_url=server.url, model="small", model_profile="vllm"))
        assert agent.limits == Limits()
        case = agent.case(box)
        asyncio.run(agent.answer(box, case, question=QUESTION, conversation="c-1"))
        asyncio.run(agent.investigate(box, case))


def named(spans: tuple[ReadableSpan, ...], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


@pytest.mark.slow
def test_an_answer_is_one_trace_of_chats_and_tools(kept: InMemorySpanExporter) -> None:
    asked()
    spans = kept.get_finished_spans()
    answer, investigation = named(spans, "invoke_agent argus")
    assert answer.attributes is not None and answer.attributes["gen_ai.conversation.id"] == "c-1"
    assert answer.context != investigation.context
    chats = named(spans, "chat small")
    assert len(chats) == 5
    for chat in chats:
        told = chat.attributes
        assert told is not None
        assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.provider.name"] == "vllm"
        assert told["gen_ai.request.model"] == "small"
        assert isinstance(told["gen_ai.usage.input_tokens"], int) and told["gen_ai.usage.output_tokens"]
    tool = named(spans, "execute_tool list_findings")[0]
    assert tool.attributes is not None and tool.attributes["gen_ai.tool.name"] == "list_findings"
    assert tool.attributes["gen_ai.tool.call.id"] and str(tool.attributes["argus.evidence.id"]).startswith(
        "ev-"
    )
    assert tool.parent is not None and answer.context is not None
    assert tool.parent.span_id == answer.context.span_id


@pytest.mark.slow
def test_no_span_holds_what_was_said(kept: InMemorySpanExporter) -> None:
    asked()
    whole = " ".join(f"{span.name} {dict(span.attributes or {})}" for span in kept.get_finished_spans())
    assert QUESTION not in whole and "slow_rank" not in whole and "rank 3" not in whole


@pytest.mark.slow
def test_a_failing_endpoint_is_a_failed_span(kept: InMemorySpanExporter) -> None:
    asked(quirks=("http-401",))
    chats = named(kept.get_finished_spans(), "chat small")
    assert chats and all(span.status.status_code is StatusCode.ERROR for span in chats)
    assert all((span.attributes or {})["error.type"] == "auth" for span in chats)
