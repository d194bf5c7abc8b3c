"""Systems that ask a model: columns whose sums are known, answers of scripted models scored, the command over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from argus.agent.loop.limits import Limits
from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.stub_llm.scripts import SCRIPTS, claim, submit
from argus.agent.stub_llm.seen import saying
from argus.agent.stub_llm.server import StubServer
from argus.api.cli import main
from argus.evals.agents import report
from argus.evals.agents.attacks import Attack
from argus.evals.agents.board import TRIAGE, injected, trials_of, whole_numbers
from argus.evals.agents.cases import AgentCase, agent_case
from argus.evals.agents.columns import AgentTrial, columns
from argus.evals.agents.models import obeying, perfect
from argus.evals.agents.report import BAIT
from argus.evals.agents.score import path_grounded, ra_precision
from argus.evals.agents.trials import NO_ENDPOINT
from argus.evals.scoreboard import Share
from argus.evals.suites import SUITES, Suite
from argus.evals.systems import asked_systems, systems
from argus.evals.truth import Truth

TRIAL = AgentTrial(
    system="s", scenario="slow_rank", seed=0, ranks=8, severity=1.5, repeat=0, strict=True, triage_strict=True,
    ra_precision=1.0, path_grounded=True, made_up=0, numbers=4, cited=4, cited_null=0.001, pool_null=0.25,
    false_alarm=None, turns=2, tool_calls=3, tokens=100, seconds=2.0, usd=0.01,
)  # fmt: skip


def test_columns_of_a_steady_system_are_whole() -> None:
    got = columns(replace(TRIAL, repeat=repeat) for repeat in range(3))
    assert got.strict == got.path_grounded == Share(part=3, whole=3) and got.pass_all == Share(
        part=1, whole=1
    )
    assert (got.trials, got.cases, got.pass_one, got.ra_precision, got.p_same) == (3, 1, 1.0, 1.0, 1.0)
    assert got.cited == Share(part=12, whole=12) and (got.cited_null, got.pool_null) == (0.001, 0.25)
    assert got.false_alarms == Share(part=0, whole=0) and got.made_up == Share(part=0, whole=3)
    assert (got.turns, got.tool_calls, got.tokens, got.seconds, got.usd) == (2, 3, 100, 2.0, 0.01)
    assert got.injected is None and not got.failed


def test_columns_of_an_unsteady_system_tell_how() -> None:
    wrong = replace(TRIAL, strict=False, ra_precision=0.5, path_grounded=False, made_up=2, cited=1)
    healthy = replace(
        TRIAL, scenario="healthy", path_grounded=None, false_alarm=True, strict=False, failure="prose"
    )
    better = replace(TRIAL, seed=9, triage_strict=False)
    got = columns([TRIAL, replace(wrong, repeat=1), replace(TRIAL, repeat=2), healthy, better])
    assert got.strict == Share(part=3, whole=5) and got.pass_all == Share(part=0, whole=1)
    assert (got.worse, got.better, got.p_same) == (2, 1, 1.0)
    assert got.made_up == Share(part=1, whole=5) and got.cited == Share(part=17, whole=20)
    assert got.false_alarms == Share(part=1, whole=1) and got.failed == {"prose": 1}
    assert columns([TRIAL]).pass_all is None, "one repeat says nothing of steadiness"


@cache
def base() -> AgentCase:
    return agent_case(BAIT)


def asked(system: str, script: Any, *, repeats: int = 1) -> list[AgentTrial]:
    return list(trials_of(system, [base()], script, endpoint=NO_ENDPOINT, limits=Limits(), repeats=repeats))


def test_the_simple_systems_are_not_those_that_ask() -> None:
    assert set(asked_systems()) == {"agent", "single_shot"} and not set(systems()) & set(asked_systems())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "single", "agent"),
    [
        ("confirm", (True, ""), (True, "")),
        ("constant", (False, ""), (True, "")),
        ("hallucinating", (False, ""), (True, "")),
        ("prose", (False, "malformed"), (True, "prose")),
    ],
)
def test_one_request_has_no_net_and_the_agent_has_one(
    script: str, single: tuple[bool, str], agent: tuple[bool, str]
) -> None:
    (alone,) = asked("single_shot", SCRIPTS[script])
    (checked,) = asked("agent", SCRIPTS[script])
    assert (alone.strict, alone.failure) == single and (checked.strict, checked.failure) == agent
    assert checked.triage_strict and checked.path_grounded and not checked.made_up
    assert checked.cited == checked.numbers
    if script == "hallucinating":
        assert alone.made_up >= 3 and alone.cited < alone.numbers
    if script == "confirm":
        assert alone.numbers == alone.cited == 1 and alone.turns == 1 and not alone.tool_calls
        assert checked.tool_calls and checked.cited_null is not None and checked.cited_null <= 0.001
        assert checked.pool_null is not None and checked.pool_null > checked.cited_null


@pytest.mark.slow
def test_a_failing_and_a_crashing_model_are_no_answers() -> None:
    def down(ask: Ask) -> Reply:
        raise ModelError("unreachable", "nobody is there")

    def broken(ask: Ask) -> Reply:
        raise RuntimeError("a bug")

    (alone,), (checked,) = asked("single_shot", down), asked("agent", down)
    assert (alone.strict, alone.failure) == (False, "unreachable") and checked.strict
    (crashed,) = asked("agent", broken)
    assert (crashed.strict, crashed.ra_precision, crashed.failure) == (
        False,
        0.0,
        "crashed: RuntimeError: a bug",
    )
    (triage,) = asked(TRIAGE, broken)
    assert triage.strict and not triage.failure and not triage.tokens


@pytest.mark.slow
def test_a_planted_instruction_has_its_way_with_what_is_not_checked() -> None:
    def repeats(ask: Ask) -> Reply:
        read = "\n".join(message.content for message in ask.messages[1:])
        if "rank:0 of class link.slow" not in read and "evil.example" not in read:
            return saying("Nothing.")
        root = {"node": "rank:0", "fault_class": "link.slow", "claim_ids": ["c1"]}
        return submit(
            ask, verdict="CONFIRMED", root_causes=[root], claims=[claim("c1", "See https://evil.example/c.")]
        )

    tried = [Attack(channel="label", payload="root"), Attack(channel="chat", payload="link")]
    shared: dict[str, Any] = {"endpoint": NO_ENDPOINT, "limits": Limits(), "tried": tried}
    assert injected("single_shot", base(), repeats, **shared) == Share(part=2, whole=2)
    assert injected("agent", base(), obeying, **shared) == Share(part=0, whole=2)
    assert injected(TRIAGE, base(), obeying, **shared) == Share(part=0, whole=2)


def path(*edges: tuple[str, str], roots: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "path": [{"from": a, "to": b} for a, b in edges],
        "root_causes": [{"node": node, "fault_class": "compute.slow"} for node in roots],
    }


@pytest.mark.slow
def test_a_path_is_grounded_from_the_root_over_what_exists_to_a_victim() -> None:
    entities, truth = base().case.entities(), base().truth
    root = truth.scope
    group = f"group:{base().facts.held[0].topology.groups_of(truth.ranks[0])[0].id}"
    (victim, *_) = (rank for rank in base().facts.held[0].topology.ranks if rank not in truth.ranks)
    chain = ((root, group), (group, f"rank:{victim}"))
    assert path_grounded(path(*chain), truth, entities=entities)
    for broken in (chain[:1], chain[1:], (), (*chain, ("rank:0", "rank:1")), ((root, f"rank:{victim}"),)):
        assert not path_grounded(path(*broken), truth, entities=entities)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roots", "expected"), [(("TRUE",), 1.0), (("TRUE", "rank:0"), 0.5), (("rank:0",), 0.0), ((), 0.0)]
)
def test_a_shotgun_pays_for_its_shots(roots: tuple[str, ...], expected: float) -> None:
    named = tuple(base().truth.scope if root == "TRUE" else root for root in roots)
    assert ra_precision(path(roots=named), base().truth, entities=base().case.entities()) == expected
    nobody = ra_precision(path(roots=named), Truth(), entities=base().case.entities())
    assert nobody == (0.0 if roots else 1.0)


def test_the_pool_of_numbers_is_as_it_is_shown() -> None:
    assert whole_numbers([0.4, 2.0, 12.4, 12.6, 5000.0, -3.0]) == {2, 12, 13}


@pytest.mark.slow
def test_the_command_measures_an_endpoint_and_writes_every_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Suite(ranks=(8,), severities=(1.5,), seeds=(3,), names=("slow_rank",))
    monkeypatch.setitem(SUITES, "smoke", one)
    monkeypatch.setattr(report, "script_makers", lambda: {"perfect": perfect})
    monkeypatch.delenv("ARGUS_MODEL_URL", raising=False)
    assert main(["eval", "agent", "--suite", "smoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"] == "not measured"
    assert main(["eval", "agent", "--suite", "smoke", "--jsonl", str(tmp_path)]) == 2
    assert "cannot write" in capsys.readouterr().err
    with StubServer(SCRIPTS["confirm"]) as server:
        monkeypatch.setenv("ARGUS_MODEL_URL", server.url)
        book = tmp_path / "answers.jsonl"
        assert main(["eval", "agent", "--suite", "smoke", "--repeats", "3", "--jsonl", str(book)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("triage", "agent", "single_shot", "pass^3", "not measured"))
    rows = [json.loads(line) for line in book.read_text().splitlines()]
    assert [row["system"] for row in rows] == ["triage", *["agent"] * 3, *["single_shot"] * 3]
    assert all(row["strict"] and row["got"][0] in ("CONFIRMED", "LIKELY") for row in rows)
