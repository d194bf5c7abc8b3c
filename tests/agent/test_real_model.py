"""A real small model behind llama.cpp's own server: protocol, tool loop, bad output, budgets, fallback.

`ARGUS_TEST_GGUF` names its weights; a file chat_template.jinja beside them is used. What it gets right or wrong is
reported, not asserted: half a billion parameters do not diagnose. Small budgets end it: few tools, short replies, few turns.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argus.agent.case import Case
from argus.agent.loop.chat import Answered, chat_turn
from argus.agent.loop.course import Step
from argus.agent.loop.drive import Surroundings, drive_async
from argus.agent.loop.fitting import MIN_WINDOW_TOKENS
from argus.agent.loop.investigate import Outcome, investigate
from argus.agent.loop.limits import Limits
from argus.agent.model import doctor
from argus.agent.model.client import Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.registry import Registry, registry
from tests.agent.talks import case_for, desk_for

WEIGHTS = os.environ.get("ARGUS_TEST_GGUF", "")
CONTEXT = MIN_WINDOW_TOKENS
"""The smallest window a model is asked in."""

READY_S = 120.0
SLOWEST_S = 1500.0
"""One answer of the model on a machine that has other things to do; an idle core takes a tenth of that for all of them."""

REPLY_TOKENS = 128

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not WEIGHTS, reason="ARGUS_TEST_GGUF names no weights"),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """llama.cpp's server on a free loopback port."""
    llama: Any = importlib.import_module("xllamacpp")
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = free_socket.getsockname()[1]
    settings = llama.CommonParams()
    settings.model.path = WEIGHTS
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.hostnames, settings.port, settings.use_jinja = ["127.0.0.1"], port, True
    # One less than there are cores: threads wait for one another after every layer, and one that has no core of its
    # own stops them all.
    for threads in (settings.cpuparams, settings.cpuparams_batch):
        threads.n_threads = max((os.cpu_count() or 1) - 1, 1)
    template = Path(WEIGHTS).with_name("chat_template.jinja")
    if template.exists():
        settings.chat_template = template.read_text()
    server = llama.Server(settings)
    _wait(f"http://127.0.0.1:{port}/health")
    yield Endpoint(url=f"http://127.0.0.1:{port}/v1", profile_name="llamacpp", context_tokens=CONTEXT)
    del server


def _wait(url: str) -> None:
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        try:
            with urllib.request.urlopen(url, timeout=2.0) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the model's server does not come up")


def test_the_doctor_finds_an_endpoint_that_calls_tools(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PROBE_S", SLOWEST_S)
    checks = {check.name: check for check in asyncio.run(doctor.probe(endpoint))}
    with capsys.disabled():
        print(
            "\n" + "\n".join(f"  {name}: {'ok' if c.ok else 'no'}, {c.found}" for name, c in checks.items())
        )
    assert checks["models"].ok and checks["tool call"].ok and checks["streaming"].ok
    assert f"{CONTEXT} tokens" in checks["context"].found


FEW = ("list_findings", "submit_diagnosis")
"""Tools a model of this size can tell apart; their schemas are a quarter of all, which is a minute of one core."""


def few_tools() -> Registry:
    known = registry()
    return replace(known, tools={name: known.tools[name] for name in FEW})


def test_an_investigation_ends_with_an_answer_or_its_budget(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[Step] = []
    limits = Limits(max_turns=3, max_s=SLOWEST_S * 3, max_reply_tokens=REPLY_TOKENS, max_request_s=SLOWEST_S)
    case, outcome = asyncio.run(_investigate(endpoint, limits, steps))
    with capsys.disabled():
        print("\n" + "\n".join(f"  {step.what} {step.text} {dict(step.details)}"[:200] for step in steps))
        print(f"  {outcome.stance}: {outcome.note} {outcome.view} {outcome.spent}")
        print(
            "\n".join(f"  dropped {item.what}: {item.text!r}: {item.why}"[:200] for item in outcome.dropped)
        )
    assert 1 <= outcome.spent.turns <= limits.max_turns and not outcome.spent.is_estimated
    assert outcome.spent.tool_calls or outcome.spent.num_repairs, "it called a tool, or was told how to"
    # It ends by what the model says, in a form that counts or not, or by its turns: no clock cut it off.
    assert outcome.failure in ("", "prose", "budget", "leaked") and outcome.budget in ("", "turns", "repeats")
    assert outcome.diagnosis["root_causes"] == case.diagnosis["root_causes"]
    assert outcome.diagnosis["verdict"] == case.diagnosis["verdict"]
    assert outcome.note and outcome.pages


def test_a_deadline_holds_with_a_real_model(endpoint: Endpoint) -> None:
    """On the conversation before: its first view is in the server's cache, and need not be read to its end again."""
    limits = Limits(max_turns=2, max_s=1.0, max_reply_tokens=REPLY_TOKENS, max_request_s=0.05)
    _, outcome = asyncio.run(_investigate(endpoint, limits, []))
    assert outcome.failure == "timeout" and outcome.note.startswith("Without the model: ")


def test_a_question_is_answered_or_the_reason_is_said(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asyncio.run(_chat(endpoint, "Which rank is slow?"))
    with capsys.disabled():
        print(f"\n  {answer.text[:300]!r} {answer.note} {answer.spent}")
    assert answer.text or answer.note


async def _investigate(endpoint: Endpoint, limits: Limits, steps: list[Step]) -> tuple[Case, Outcome]:
    """Of a slow link, whose evidence is short; without a runbook, which is a fifth of the first view."""
    case, context = case_for("slow_link")
    case = replace(case, books=())
    desk = desk_for(case, context, endpoint=endpoint, limits=limits, tools=few_tools())
    around = Surroundings(registry=desk.registry, context=context, clock=time.monotonic, watch=steps.append)
    model = Model(endpoint)
    try:
        return case, await drive_async(investigate(case, desk), model.ask, around)
    finally:
        await model.close()


async def _chat(endpoint: Endpoint, question: str) -> Answered:
    case, context = case_for("healthy")
    case = replace(case, books=())
    limits = Limits(max_turns=2, max_s=SLOWEST_S * 2, max_reply_tokens=REPLY_TOKENS, max_request_s=SLOWEST_S)
    desk = desk_for(case, context, endpoint=endpoint, limits=limits, tools=few_tools())
    around = Surroundings(registry=desk.registry, context=context, clock=time.monotonic)
    model = Model(endpoint)
    try:
        return await drive_async(chat_turn(case, desk, question=question), model.ask, around)
    finally:
        await model.close()
