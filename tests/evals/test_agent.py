"""The agent on every scenario there is, with every scripted model: never below the triage, nothing made up."""

from __future__ import annotations

from functools import cache

import pytest

from argus.agent.entities import entities_of
from argus.agent.evidence import MemoryBook
from argus.agent.loop.investigate import Outcome
from argus.evals.agents.cases import AgentCase, agent_case
from argus.evals.agents.models import script_makers
from argus.evals.agents.score import AnswerScore, score_answer
from argus.evals.agents.trials import answer_score, asked_on, summarise
from argus.evals.score import Trial
from argus.evals.suites import SMOKE
from argus.evals.truth import Truth

SEVERITY = 1.5


@cache
def case_of(scenario: str) -> AgentCase:
    return agent_case(Trial(scenario=scenario, seed=3, ranks=8, severity=SEVERITY))


def asked(scenario: str, model: str) -> tuple[AnswerScore, AnswerScore, Outcome]:
    """The answer's score, the triage's score, the outcome."""
    made = case_of(scenario)
    context = made.context()
    outcome = asked_on(made.case, context, script_makers()[model](made.truth))
    triage = score_answer(made.case.diagnosis, made.truth, entities=made.case.entities(), book=context.book)
    return answer_score(made, outcome, context), triage, outcome


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SMOKE)
def test_no_model_makes_the_answer_worse_or_makes_anything_up(scenario: str) -> None:
    for model in script_makers():
        score, triage, outcome = asked(scenario, model)
        assert score.root_strict >= triage.root_strict, (model, outcome.note)
        assert score.component_strict >= triage.component_strict, model
        assert score.made_up == () and score.unpointed == (), model


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["slow_rank", "slow_link", "gc_pause", "lost_rank", "healthy"])
def test_a_perfect_model_agrees_where_the_triage_is_right(scenario: str) -> None:
    score, triage, outcome = asked(scenario, "perfect")
    assert triage.root_strict and score.root_strict
    assert outcome.stance == "agrees", (outcome.note, outcome.dropped)


@pytest.mark.slow
def test_a_plausible_model_is_shown_beside_the_triage() -> None:
    _, _, outcome = asked("slow_rank", "plausible")
    assert outcome.stance == "differs" and outcome.view and outcome.stage == "triage"


NO_BOOK = MemoryBook()
SLOW = Truth(fault_class="compute.slow", ranks=(3,), scope="rank:3")


def diagnosis(*roots: tuple[str, str], text: str = "", ids: tuple[str, ...] = ()) -> dict[str, object]:
    """The least that is scored."""
    claims = [{"id": "m1", "text": text, "values": {}, "evidence": list(ids)}] if text else []
    return {
        "root_causes": [{"node": node, "fault_class": name} for node, name in roots],
        "claims": claims,
        "ruled_out": [],
        "path": [],
        "remediation": [],
        "missing_evidence": [],
    }


@pytest.mark.parametrize(
    ("roots", "truth", "component", "fault_class"),
    [
        ([("rank:3", "compute.slow")], SLOW, True, True),
        ([("rank:3", "host.gc")], SLOW, True, False),
        ([("rank:4", "compute.slow")], SLOW, False, True),
        ([("rank:3", "compute.slow"), ("rank:4", "compute.slow")], SLOW, False, True),
        ([], SLOW, False, False),
        ([], Truth(), True, True),
        ([("rank:3", "compute.slow")], Truth(), False, False),
    ],
)
def test_the_scorer_is_strict(
    roots: list[tuple[str, str]], truth: Truth, component: bool, fault_class: bool
) -> None:
    entities = entities_of(fleet=None, world_size=8, pages=())
    score = score_answer(diagnosis(*roots), truth, entities=entities, book=NO_BOOK)
    assert (score.component_strict, score.fault_class) == (component, fault_class)


@pytest.mark.parametrize(
    ("text", "made_up", "unpointed"),
    [
        ("Rank 3 is slow.", 0, 1),
        ("Rank 9 is slow.", 1, 1),
        ("It takes 12.5 ms on host-77.", 1, 2),
    ],
)
def test_the_scorer_sees_what_is_made_up(text: str, made_up: int, unpointed: int) -> None:
    entities = entities_of(fleet=None, world_size=8, pages=())
    score = score_answer(diagnosis(text=text), Truth(), entities=entities, book=NO_BOOK)
    assert (len(score.made_up), len(score.unpointed)) == (made_up, unpointed)


def test_rows_sum_up() -> None:
    good, bad = (
        AnswerScore(component_strict=True, fault_class=True),
        AnswerScore(component_strict=False, fault_class=True),
    )
    outcome = Outcome(diagnosis={}, stage="triage", stance="differs", note="")
    row = summarise("m", [(good, bad, outcome), (bad, good, outcome)])
    assert (row.root_strict, row.triage_root_strict, row.not_below, row.stances) == (1, 1, 1, {"differs": 2})
