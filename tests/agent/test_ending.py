"""How a talk ends: calls that are too many, the one that ends it, and whose the advice in the outcome is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.agent.answer import outcome_lines
from argus.agent.arbiter import UNDECIDED
from argus.agent.loop.drive import Surroundings, drive
from argus.agent.loop.investigate import investigate
from argus.agent.loop.limits import Limits
from argus.agent.model.message import Ask, Reply
from argus.agent.registry import registry
from argus.agent.stub_llm import scripts
from argus.agent.stub_llm.seen import blank_call, calling, triage_of
from tests.agent.talks import Ticks, case_for, desk_for, scripted


def test_what_is_beyond_a_budget_is_told_which() -> None:
    told: list[str] = []

    def firing(ask: Ask) -> Reply:
        told.extend(one.content for one in ask.messages if one.role == "tool" and "not run" in one.content)
        return calling(*(blank_call(ask, "list_findings", rank=rank) for rank in range(10)))

    scripted(firing, limits=Limits(max_turns=3, max_tool_calls=4))
    assert told and set(told) == {"not run: your budget of 4 tool calls is used up"}
    told.clear()
    scripted(firing, limits=Limits(max_turns=2))
    assert set(told) == {"not run: more than 8 calls at once"}


@pytest.mark.parametrize("limits", [Limits(), Limits(max_tool_calls=9)])
def test_the_call_that_ends_it_is_never_one_too_many(limits: Limits) -> None:
    def all_at_once(ask: Ask) -> Reply:
        looks = [blank_call(ask, "list_findings", rank=rank) for rank in range(8)]
        return calling(*looks, *scripts.submit(ask, **scripts.submission(triage_of(ask))).calls)

    outcome, _ = scripted(all_at_once, limits=limits)
    assert (outcome.stance, outcome.spent.turns) == ("agrees", 1)


def test_only_the_models_own_actions_are_shown_as_its_own() -> None:
    """Of a cause whose kind the triage leaves open the model names the kind, for which other actions are advised."""
    case, context = case_for()
    roots = [{**root, "fault_class": UNDECIDED} for root in case.diagnosis["root_causes"]]
    left_open = {"root_causes": roots, "verdict": "INCONCLUSIVE", "remediation": []}
    case = replace(case, diagnosis={**case.diagnosis, **left_open})

    def refining(ask: Ask) -> Reply:
        body = scripts.submission(triage_of(ask))
        advice = [{"action": "probe.suspects", "target": "rank:3", "claim_ids": []}]
        return scripts.submit(ask, **{**body, "remediation": advice})

    around = Surroundings(registry=registry(), context=context, clock=Ticks())
    outcome = drive(investigate(case, desk_for(case, context)), refining, around)
    shown = [line for line in outcome_lines(outcome, book=context.book) if "→" in line]
    assert outcome.stance == "refines" and len(outcome.diagnosis["remediation"]) == 1
    assert len(shown) == 1 and "rank:3" in shown[0]
