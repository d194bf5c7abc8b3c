"""From an incident of a large cluster to the complete text, without a model; and what a turn costs besides the model."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from argus.agent.answer import card_of, why_lines
from argus.agent.case import Case
from argus.agent.model.message import Ask, Reply
from argus.agent.model.reading import ask_tokens
from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.server import StubServer
from argus.agent.triage import diagnose
from argus.analytics.store.engine import open_store
from argus.api.agent import Agent, agent_of
from argus.api.migrate import upgrade
from argus.api.settings import Settings
from argus.api.toolbox import Toolbox, toolbox_of
from argus.evals.bench import Size
from argus.evals.bench.tools import RANKS, lived_service

MUST_TEXT_S = 2.0
MUST_TURN_S = 0.1
MUST_VIEW_TOKENS = 6000
"""Of the first request, so that a window of 16k is enough."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Seconds to the text from a database nobody has asked yet, and seconds per turn that are not the model's."""
    with tempfile.TemporaryDirectory(prefix="argus-text-") as name:
        store = open_store(str(Path(name) / "a.sqlite"))
        upgrade(store)
        toolbox = toolbox_of(lived_service(store, RANKS[size]))
        case, text, num_lines = _text(toolbox)
        turns, overhead, view_tokens = _overhead(toolbox, case)
        store.close()
    deterministic_s, overhead_s = text[0], overhead[0]
    is_in_time = deterministic_s <= MUST_TEXT_S and overhead_s <= MUST_TURN_S
    return {
        "num_ranks": RANKS[size],
        "deterministic_s": deterministic_s,
        "deterministic_cpu_s": text[1],
        "num_lines": num_lines,
        "turns": turns,
        "agent_overhead_s": overhead_s,
        "agent_overhead_cpu_s": overhead[1],
        "first_view_tokens": view_tokens,
        "ok": (size == "smoke" or is_in_time) and view_tokens <= MUST_VIEW_TOKENS,
    }


def table(result: Mapping[str, Any]) -> str:
    """Two lines, and the size of the first request."""
    return (
        "| what | s | of it CPU | must |\n|---|---|---|---|\n"
        f"| incident to complete text, no model, {result['num_ranks']:,} ranks | {result['deterministic_s']:.2f} "
        f"| {result['deterministic_cpu_s']:.2f} | {MUST_TEXT_S:g} |\n"
        f"| a turn of the agent besides the model | {result['agent_overhead_s']:.3f} "
        f"| {result['agent_overhead_cpu_s']:.3f} | {MUST_TURN_S:g} |\n\n"
        f"The first request has {result['first_view_tokens']:,} tokens with the tools, {MUST_VIEW_TOKENS:,} at the most."
    )


Took = tuple[float, float]
"""Seconds by the clock and of the CPU: on a busy machine they differ."""


def _text(toolbox: Toolbox) -> tuple[Case, Took, int]:
    """Everything from the database anew: incident, findings, graph, diagnosis, card and reasons."""
    agent, _ = agent_of(Settings())
    begun, cpu = time.perf_counter(), time.process_time()
    case = agent.case(toolbox)
    incident, fleet = case.incident, case.fleet
    assert incident is not None and fleet is not None
    behind = [one for key in incident.cause.findings if (one := toolbox.facts.finding(key)) is not None]
    diagnosis = diagnose(incident, findings=behind, topology=fleet.topology)
    lines = [*card_of(case).splitlines(), *why_lines(case, diagnosis, toolbox.book)]
    return case, (time.perf_counter() - begun, time.process_time() - cpu), len(lines)


REPEATS = 3
"""Investigations timed, after one that imports the client's library."""


def _overhead(toolbox: Toolbox, case: Case) -> tuple[int, Took, int]:
    """Turns of an investigation over loopback HTTP, the median seconds of each that the model did not take, and the
    tokens of the first request."""
    in_model_s, views = 0.0, []

    def timed(ask: Ask) -> Reply:
        nonlocal in_model_s
        begun = time.perf_counter()
        views.append(ask_tokens(ask))
        reply = confirm(ask)
        in_model_s += time.perf_counter() - begun
        return reply

    took, turns = [], 0
    with StubServer(timed) as server:
        settings = Settings(model_url=server.url, model="m", model_context=32_768)
        agent: Agent = agent_of(settings)[0]
        for _ in range(REPEATS + 1):
            in_model_s, begun, cpu = 0.0, time.perf_counter(), time.process_time()
            outcome = asyncio.run(agent.investigate(toolbox, case))
            assert outcome.stance == "agrees", outcome.note
            turns = outcome.spent.turns
            passed = time.perf_counter() - begun - in_model_s, time.process_time() - cpu
            took.append((passed[0] / turns, passed[1] / turns))
    return turns, (median(wall for wall, _ in took[1:]), median(cpu for _, cpu in took[1:])), views[0]
