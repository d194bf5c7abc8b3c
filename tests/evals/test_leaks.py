"""Neither tools nor prompts of the agent hold a trial's name, seed or truth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import pytest

from argus.agent.case import triage_page
from argus.agent.context import ToolContext
from argus.agent.guard import Guard
from argus.agent.loop.prompt import first_view, system_text
from argus.agent.registry import registry
from argus.evals.agents import cases
from argus.evals.agents.cases import AgentCase, agent_case
from argus.evals.scenarios import scenarios
from argus.evals.score import Trial
from argus.evals.truth import Scenario, Truth

SEED = 987_654
TRIAL = Trial(scenario="slow_data", seed=SEED, ranks=4, severity=1.5)
OTHER = Truth(fault_class="host.lock", ranks=(0,), scope="rank:0", best_verdict="LIKELY")

QUESTIONS: tuple[Mapping[str, object], ...] = ({}, {"rank": 1}, {"ranks": [1]}, {"nodes": ["rank:1"]})


@cache
def told(*, lies: bool = False) -> tuple[str, ...]:
    """Everything a model sees of the trial; with `lies` its scenario claims another truth."""
    with pytest.MonkeyPatch.context() as patch:
        if lies:
            make = scenarios()[TRIAL.scenario]

            def lying(**settings: int) -> Scenario:
                return replace(make(**settings), truth=OTHER)

            patch.setattr(cases, "scenarios", lambda: {TRIAL.scenario: lying})
        made = agent_case(TRIAL)
    assert (made.truth == OTHER) == lies
    return tuple(texts(made))


def texts(made: AgentCase) -> Iterator[str]:
    """The prompts, then what each tool that only reads says when it is asked without arguments or for rank 1."""
    guard, case, context = Guard(secret="0" * 6), made.case, made.context()
    yield system_text(guard, terminal="submit_diagnosis").replace(guard.canary, "")
    yield first_view(case, triage_page(case), guard=guard).replace(guard.canary, "")
    for name in registry().tools:
        for args in QUESTIONS:
            yield answer(name, args, context)


def answer(name: str, args: Mapping[str, object], context: ToolContext) -> str:
    result = registry().call(name, args, context)
    return json.dumps([result.status, result.data, result.note], sort_keys=True)


@pytest.mark.slow
def test_no_prompt_and_no_tool_holds_the_name_or_the_seed() -> None:
    assert sum('"ok"' in text for text in told()) >= 5  # tools that had something to say
    for text in told():
        assert not re.search(rf"\b{TRIAL.scenario}\b", text) and str(SEED) not in text


@pytest.mark.slow
def test_what_is_told_does_not_depend_on_the_truth() -> None:
    assert told() == told(lies=True)
