"""Investigations by scripted models: budgets, circles, honest and dishonest answers, always an end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from argus.agent.loop.investigate import Outcome
from argus.agent.loop.limits import Limits
from argus.agent.model.message import Ask, ModelError, Reply, ToolCall
from argus.agent.model.reading import ask_tokens
from argus.agent.pseudonyms import pseudonyms_of
from argus.agent.stub_llm import scripts
from argus.agent.stub_llm.seen import blank_call, calling, pages, saying, triage_of
from tests.agent.talks import NOWHERE, case_for, scripted

FIRST_VIEW_TOKENS = 6000


def test_a_model_that_confirms_adds_claims_that_point_to_evidence() -> None:
    outcome, steps = scripted(scripts.confirm)
    assert (outcome.stage, outcome.stance) == ("agent", "agrees") and not outcome.dropped
    added = [claim for claim in outcome.diagnosis["claims"] if claim["id"].startswith("m")]
    assert added and all(
        claim["evidence"] and set(claim["evidence"]) <= set(outcome.pages) for claim in added
    )
    assert [step.text for step in steps if step.what == "called"] == [
        "list_findings",
        "get_finding",
        "submit_diagnosis",
    ]
    assert outcome.spent.turns == 3 and outcome.spent.tool_calls == 3


def test_a_command_that_a_model_advises_can_be_copied_as_it_is() -> None:
    def advising(ask: Ask) -> Reply:
        advice: list[dict[str, Any]] = [
            {"action": name, "target": "rank:3", "claim_ids": []}
            for name in ("stacks.read", "probe.suspects")
        ]
        return scripts.submit(ask, **{**scripts.submission(triage_of(ask)), "remediation": advice})

    case, _ = case_for()
    assert case.incident is not None
    outcome, _ = scripted(advising)
    commands = [str(action["command"]) for action in outcome.diagnosis["remediation"]]
    assert f"argus stacks --run {case.facts.run} --rank 3 --burst 10" in commands
    assert f"argus probe --incident {case.incident.id} --dry-run" in commands


@pytest.mark.parametrize("name", [name for name in scripts.SCRIPTS if name != "confirm"])
def test_whatever_a_model_does_the_root_cause_and_verdict_stay(name: str) -> None:
    case, _ = case_for()
    outcome, _ = scripted(scripts.SCRIPTS[name])
    for key in ("root_causes", "verdict", "headline"):
        assert outcome.diagnosis[key] == case.diagnosis[key]
    assert outcome.note.endswith(".")


@pytest.mark.parametrize(
    ("name", "stance"),
    [
        ("constant", "ungrounded"),
        ("hallucinating", "ungrounded"),
        ("plausible", "differs"),
        ("looping", "failed"),
        ("ungrounded", "ungrounded"),
        ("malformed", "failed"),
        ("inconclusive", "doubts"),
        ("prose", "failed"),
        ("silent", "failed"),
    ],
)
def test_how_each_goes_wrong_is_told(name: str, stance: str) -> None:
    outcome, _ = scripted(scripts.SCRIPTS[name])
    assert outcome.stance == stance, (outcome.note, outcome.dropped)


def test_nothing_invented_is_shown() -> None:
    outcome, _ = scripted(scripts.hallucinating)
    shown = str(outcome.diagnosis)
    assert not re.search("77777|dgx-9999|imaginary|cosmic|4711|made/up", shown)
    assert {item.what for item in outcome.dropped} == {"claim", "root cause"}


def test_numbers_typed_instead_of_pointed_to_are_dropped_and_said_to_be() -> None:
    outcome, _ = scripted(scripts.ungrounded)
    assert outcome.dropped and all("132 ms" in item.text for item in outcome.dropped)
    assert "132 ms against" not in str(outcome.diagnosis["claims"])


def test_two_calls_in_turn_are_noticed_and_the_answer_is_asked_for() -> None:
    outcome, _ = scripted(scripts.looping)
    assert outcome.budget == "repeats" and outcome.spent.turns <= 8


def test_a_limit_raised_by_one_each_time_is_a_circle_too() -> None:
    def creeping(ask: Ask) -> Reply:
        rank = sum(message.role == "assistant" for message in ask.messages)
        return calling(blank_call(ask, "list_findings", rank=rank % 8)) if ask.tools else saying("Enough.")

    outcome, _ = scripted(creeping)
    assert outcome.budget == "repeats"


def test_the_same_narration_again_is_a_circle() -> None:
    def narrating(ask: Ask) -> Reply:
        at = sum(message.role == "assistant" for message in ask.messages)
        names = ("topology_query", "shared_elements", "history", "step_series", "stacks", "what_if")
        call = blank_call(ask, names[at % len(names)])
        return calling(call, content="Let me now look into this more carefully, one step at a time.")

    outcome, _ = scripted(narrating)
    assert outcome.budget == "repeats"


def test_many_calls_at_once_are_not_all_run() -> None:
    def firing(ask: Ask) -> Reply:
        return calling(*(blank_call(ask, "list_findings", rank=rank) for rank in range(40)))

    outcome, _ = scripted(firing, limits=Limits(max_turns=3))
    assert outcome.spent.tool_calls <= 16


@pytest.mark.parametrize(
    ("limits", "tick_s", "budget"),
    [
        (Limits(max_turns=2), 0.0, "turns"),
        (Limits(max_tool_calls=1), 0.0, "tool_calls"),
        (Limits(max_tokens=10), 0.0, "tokens"),
        (Limits(max_s=10.0), 2.0, "seconds"),
    ],
)
def test_a_budget_that_runs_out_leaves_one_last_answer(limits: Limits, tick_s: float, budget: str) -> None:
    seen: list[Ask] = []

    def asking(ask: Ask) -> Reply:
        seen.append(ask)
        return scripts.confirm(ask)

    outcome, _ = scripted(asking, limits=limits, tick_s=tick_s)
    assert outcome.budget == budget
    assert outcome.stance in ("agrees", "failed")
    assert not seen[-1].tools or outcome.stance == "failed"


def test_money_runs_out_like_any_budget_and_is_told() -> None:
    dear = replace(NOWHERE, usd_per_mtok_in=100.0, usd_per_mtok_out=400.0)
    outcome, _ = scripted(scripts.confirm, limits=Limits(max_usd=0.01), endpoint=dear)
    spent = outcome.spent
    assert (outcome.budget, outcome.stance) == ("usd", "agrees") and spent.turns == 2
    assert spent.usd == pytest.approx((spent.prompt_tokens * 100 + spent.completion_tokens * 400) / 1e6)
    free, _ = scripted(scripts.confirm, endpoint=dear)
    assert not free.budget and free.spent.usd > 0.01


def test_a_last_answer_in_json_counts() -> None:
    outcome, _ = scripted(scripts.confirm, limits=Limits(max_turns=2))
    assert (outcome.budget, outcome.stance) == ("turns", "agrees")


def test_a_failing_model_costs_nothing_but_a_sentence() -> None:
    def failing(ask: Ask) -> Reply:
        raise ModelError("auth", "the endpoint refuses the key (401)")

    case, _ = case_for()
    outcome, _ = scripted(failing)
    assert outcome.diagnosis == case.diagnosis
    assert (outcome.failure, outcome.note) == (
        "auth",
        "Without the model: the endpoint refuses the key (401).",
    )


def test_a_smaller_window_than_was_thought_is_tried_with_less() -> None:
    sizes: list[int] = []

    def small(ask: Ask) -> Reply:
        sizes.append(ask_tokens(ask))
        if len(sizes) == 4:
            raise ModelError("context", "it does not fit")
        return scripts.confirm(ask)

    outcome, _ = scripted(small)
    assert outcome.stance in ("agrees", "failed")


def test_a_window_too_small_to_work_in_is_said_and_nothing_is_sent() -> None:
    outcome, _ = scripted(scripts.confirm, window_tokens=4096)
    assert outcome.failure == "context" and "4096" in outcome.note and not outcome.spent.turns


@pytest.mark.parametrize("ranks", [8, 64])
def test_the_first_view_leaves_room_in_a_small_window(ranks: int) -> None:
    seen: list[Ask] = []

    def first(ask: Ask) -> Reply:
        seen.append(ask)
        return scripts.silent(ask)

    scripted(first, ranks=ranks)
    assert ask_tokens(seen[0]) <= FIRST_VIEW_TOKENS


def test_a_long_conversation_stays_inside_the_window() -> None:
    seen: list[Ask] = []

    def long(ask: Ask) -> Reply:
        seen.append(ask)
        at = len(seen)
        names = (
            "list_findings",
            "step_series",
            "topology_query",
            "collective_skew",
            "compare_phase",
            "blast_radius",
        )
        return calling(blank_call(ask, names[at % len(names)], rank=at % 8), content=f"Step {at}.")

    scripted(long, limits=Limits(max_turns=30, max_tool_calls=30), window_tokens=8192)
    for ask in seen:
        assert ask_tokens(ask) + ask.max_tokens <= 8192
        answered = {message.call_id for message in ask.messages if message.role == "tool"}
        assert answered == {call.id for message in ask.messages for call in message.calls}
        assert triage_of(ask) is not None


def test_tools_with_an_effect_are_never_offered() -> None:
    seen: list[Ask] = []

    def planning(ask: Ask) -> Reply:
        seen.append(ask)
        if len(seen) == 1:
            return calling(ToolCall(id="x", name="capture_raw", arguments={}))
        return scripts.confirm(ask)

    scripted(planning)
    assert "capture_raw" not in seen[0].tool_names
    assert any(message.role == "tool" and "denied" in message.content for message in seen[1].messages)


def test_hosts_have_other_names_towards_the_model_and_their_own_in_the_answer() -> None:
    case, _ = case_for()
    other = pseudonyms_of(case.hosts)
    seen: list[str] = []

    def looking(ask: Ask) -> Reply:
        seen.extend(message.content for message in ask.messages)
        page = triage_of(ask)
        assert page is not None
        if sum(message.role == "assistant" for message in ask.messages) == 0:
            return calling(blank_call(ask, "topology_query", element=f"host:{other.names[case.hosts[0]]}"))
        return scripts.submit(ask, **scripts.submission(page))

    outcome, steps = scripted(looking, pseudonyms=other)
    told = next(step for step in steps if step.what == "calling")
    assert f"host:{case.hosts[0]}" in str(told.details)
    assert not any(
        re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text) for host in case.hosts for text in seen
    )
    assert outcome.stance == "agrees"


def test_instructions_repeated_by_the_model_are_thrown_away() -> None:
    def leaking(ask: Ask) -> Reply:
        return saying(ask.messages[0].content)

    outcome, _ = scripted(leaking)
    assert outcome.failure == "leaked" and "ref-" not in str(outcome.to_json())


def test_new_numbers_come_from_compute_and_can_be_cited() -> None:
    def computing(ask: Ask) -> Reply:
        page = triage_of(ask)
        assert page is not None
        made = [one for one in pages(ask) if "value" in one.data]
        if not made:
            return calling(blank_call(ask, "compute", **_twice(ask, page.id)))
        body = scripts.submission(page)
        value = scripts.pointer("v", made[-1].id, "/value")
        body["claims"].append(scripts.claim("twice", "Twice that is {v}.", values=[value]))
        return scripts.submit(ask, **body)

    outcome, _ = scripted(computing)
    assert "mtwice" in [claim["id"] for claim in outcome.diagnosis["claims"]], outcome.dropped


def _twice(ask: Ask, evidence: str) -> dict[str, Any]:
    tool = next(tool for tool in ask.tools if tool["function"]["name"] == "compute")
    names = list(tool["function"]["parameters"]["properties"])
    pointer = {"name": "a", "evidence": evidence, "path": "/evidence/0/value"}
    given = {"expression": "a + a", "values": [pointer], "unit": "s"}
    return {name: given[name] for name in names}


WRONG = {"node": "rank:1", "fault_class": "host.gc", "claim_ids": ["c1"]}


def insisting(tool: str, path: str) -> scripts.Script:
    """A model that looks through one tool and then insists on `WRONG`, citing a number of that page."""

    def script(ask: Ask) -> Reply:
        triage = triage_of(ask)
        assert triage is not None
        page = triage if tool == "triage" else next(iter(pages(ask)[1:]), None)
        if page is None:
            return calling(blank_call(ask, tool))
        cited = scripts.claim("c1", "It is {v}.", values=[scripts.pointer("v", page.id, path)])
        return scripts.submit(ask, verdict="CONFIRMED", root_causes=[WRONG], claims=[cited])

    return script


def judged_now(verdict: str, **root: str) -> Mapping[str, Any]:
    case, _ = case_for()
    return {**case.diagnosis, "verdict": verdict, "root_causes": [{**WRONG, **root, "claim_ids": []}]}


def test_a_view_that_the_analysis_now_shares_is_the_answer() -> None:
    now = judged_now("LIKELY")
    outcome, steps = scripted(insisting("step_series", "/points/0/job_s"), rejudge=lambda: now)
    assert (outcome.stage, outcome.stance) == ("agent", "overturns"), (outcome.note, outcome.dropped)
    assert outcome.diagnosis["root_causes"] == now["root_causes"]
    assert "mc1" in [claim["id"] for claim in outcome.diagnosis["claims"]]
    assert "looking" in [step.what for step in steps]


@pytest.mark.parametrize(
    ("verdict", "root"),
    [
        ("", {}),
        ("INCONCLUSIVE", {}),
        ("CONFIRMED", {"fault_class": "host.jit"}),
        ("LIKELY", {"node": "rank:2"}),
    ],
)
def test_a_view_that_the_analysis_does_not_share_is_shown_beside_the_triage(
    verdict: str, root: dict[str, str]
) -> None:
    case, _ = case_for()
    now = judged_now(verdict, **root) if verdict else None
    outcome, _ = scripted(insisting("step_series", "/points/0/job_s"), rejudge=lambda: now)
    assert (outcome.stage, outcome.stance) == ("triage", "differs")
    assert outcome.diagnosis == case.diagnosis
    assert [root["node"] for root in outcome.view] == ["rank:1"] and outcome.reasons[0]["id"] == "mc1"


def test_what_the_triage_knew_already_overturns_nothing() -> None:
    outcome, steps = scripted(insisting("triage", "/onset_step"), rejudge=lambda: judged_now("CONFIRMED"))
    assert outcome.stance == "differs" and "looking" not in [step.what for step in steps]


@pytest.mark.parametrize("name", ["confirm", "plausible", "hallucinating", "looping"])
def test_an_outcome_comes_back_from_its_json(name: str) -> None:
    outcome, _ = scripted(scripts.SCRIPTS[name])
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))).to_json() == outcome.to_json()
