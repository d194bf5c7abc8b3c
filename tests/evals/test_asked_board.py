"""Systems that ask a model as rows of the scoreboard: marked like all others, or shown as not measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.stub_llm.scripts import SCRIPTS, submit
from argus.agent.stub_llm.server import StubServer
from argus.analytics.incident import Incident
from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.evals import board_suites, side_by_side
from argus.evals.agents.models import perfect
from argus.evals.answers import compare
from argus.evals.asked_incidents import NoAnswer, Said, asked_incidents
from argus.evals.asked_model import AskedModel, model_of_settings
from argus.evals.play import Played, play
from argus.evals.score import Trial
from argus.evals.scoreboard import lines
from argus.evals.scoreboard_page import Made, page, render
from argus.evals.side_by_side import ALL, chosen, not_measured
from argus.evals.simulator.simulate import simulate
from argus.evals.suites import Suite, entropy
from argus.evals.suites import made as of_suite
from argus.evals.systems import OURS, asked_systems, is_asked_of_each, systems

TRIAL = Trial(scenario="slow_rank", seed=4, ranks=4, severity=1.5)
NAMES = (OURS, "agent", "single_shot")


def model_at(url: str) -> AskedModel:
    return AskedModel(endpoint=Endpoint(url=url, model="m"), limits=Limits())


NOWHERE = model_at("http://127.0.0.1:9/v1")


@cache
def played(scenario: str) -> Played:
    made = of_suite(replace(TRIAL, scenario=scenario))
    simulation = simulate(made.job, made.faults, rng=np.random.default_rng(entropy(TRIAL)))
    return play(simulation, events=made.events, keeps_windows=True)


def said(name: str, script: Asked, scenario: str = "slow_rank") -> Said:
    return asked_incidents(name, played(scenario), end_s=9e9, model=NOWHERE, ask=script, clock=lambda: 0.0)


def causes(incidents: Iterable[Incident]) -> list[tuple[str, str, str, tuple[int, ...]]]:
    return [
        (one.cause.verdict, one.cause.fault_class, one.cause.scope, one.cause.suspects) for one in incidents
    ]


@pytest.mark.slow
def test_an_agent_is_marked_for_each_incident_and_a_single_question_for_the_job() -> None:
    assert {name: is_asked_of_each(name) for name in asked_systems()} == {"agent": True, "single_shot": False}
    with StubServer(SCRIPTS["confirm"]) as server:
        ours, agent, single = compare(TRIAL, names=NAMES, model=model_at(server.url))
    for name in (
        "said",
        "false",
        "found",
        "right_class",
        "right_scope",
        "onset_off",
        "delay_windows",
        "sure",
    ):
        assert getattr(agent, name) == getattr(ours, name), (
            "a model that agrees leaves the incident as it was"
        )
    assert ours.found and single.found and single.right_class and single.right_scope and single.said == 1
    assert single.delay_windows is not None and ours.delay_windows is not None
    assert single.delay_windows > ours.delay_windows, "it is asked when the job has ended"
    assert agent.delay_s is not None and agent.spent.diagnosis_s is not None
    assert agent.spent.diagnosis_s > agent.delay_s, "what the model takes comes on top"
    assert agent.spent.bytes_per_rank_step == ours.spent.bytes_per_rank_step


def down(ask: Ask) -> Reply:
    raise ModelError("unreachable", "nobody is there")


@pytest.mark.slow
@pytest.mark.parametrize("script", [SCRIPTS["constant"], SCRIPTS["plausible"], down])
def test_a_wrong_or_absent_model_leaves_what_the_agent_is_marked_for(script: Asked) -> None:
    ours = played("slow_rank")
    told = said("agent", script)
    assert causes(told.incidents) == causes(ours.incidents) and told.told_s == ours.told_s
    assert told.advice and said("agent", script, "healthy").incidents == ()


@pytest.mark.slow
def test_an_incident_whose_kind_stays_open_is_named_by_the_agent() -> None:
    """A refined class moves the mark; one that is left open, without a root cause, stays an incident."""
    ours = played("slow_rank")
    (worst,) = ours.incidents
    is_open = replace(worst, cause=replace(worst.cause, fault_class="unknown"))
    again = asked_incidents(
        "agent",
        replace(ours, incidents=(is_open,)),
        end_s=9e9,
        model=NOWHERE,
        ask=perfect(of_suite(TRIAL).truth),
        clock=lambda: 0.0,
    )
    (named,) = again.incidents
    assert (named.cause.fault_class, named.cause.scope) == ("compute.slow", worst.cause.scope)
    assert named.cause.suspects == worst.cause.suspects and named.onset_step == worst.onset_step


@pytest.mark.slow
def test_an_answer_to_a_single_question_is_taken_as_it_stands() -> None:
    assert causes(said("single_shot", SCRIPTS["constant"]).incidents) == [
        ("CONFIRMED", "compute.slow", "rank:0", (0,))
    ]
    (group,) = said("single_shot", naming("LIKELY", ("group:dp/0", "link.slow"))).incidents
    assert (group.cause.group, group.cause.suspects) == ("dp/0", ())
    assert causes(said("single_shot", naming("LIKELY")).incidents) == [("LIKELY", "unknown", "run:train", ())]
    two = naming("INCONCLUSIVE", ("rank:1", "host.gc"), ("host:gone", "host.gc"), onset_step=40)
    assert [(one.onset_step, one.cause.suspects) for one in said("single_shot", two).incidents] == [
        (40, (1,)),
        (40, ()),
    ]
    assert said("single_shot", naming("NO_FAULT", ("rank:1", "host.gc"))).incidents == ()
    assert said("single_shot", naming("INCONCLUSIVE")).incidents == ()
    with pytest.raises(NoAnswer, match="unreachable"):
        said("single_shot", down)
    with pytest.raises(NoAnswer, match="malformed"):
        said("single_shot", SCRIPTS["prose"])


def naming(verdict: str, *roots: tuple[str, str], onset_step: object = "soon") -> Asked:
    """A model that says just this."""
    rows = [{"node": node, "fault_class": name, "claim_ids": []} for node, name in roots]
    return lambda ask: submit(ask, verdict=verdict, root_causes=rows, onset_step=onset_step)


def test_without_an_endpoint_they_are_shown_as_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen([ALL]) == (OURS, *systems()) and chosen([ALL], model=NOWHERE)[-2:] == (
        "agent",
        "single_shot",
    )
    assert chosen(["agent", OURS], model=NOWHERE) == (OURS, "agent")
    with pytest.raises(CliError, match=r"agent asks a language model.*ARGUS_MODEL_URL"):
        chosen(["agent"])
    assert not_measured([ALL], reads_traces=False, model=NOWHERE) == ()
    assert not_measured([OURS], reads_traces=False, model=None) == ()
    lacking = not_measured([ALL], reads_traces=False, model=None)
    assert lacking == ("agent", "single_shot") and "not measured" in capsys.readouterr().err
    made = Made(suite="dev", command="c", date="d", machine="m", took="1 s", not_measured=lacking)
    head = next(line for line in page([], made).splitlines() if line.startswith("|  | "))
    assert head == "|  | agent | single_shot |"
    assert render([], not_measured=lacking).count("not measured (set ARGUS_MODEL_URL)") == 2


def test_an_endpoint_that_cannot_be_asked_is_told_before_the_trials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with StubServer(SCRIPTS["confirm"]) as server:
        gone = server.url
        monkeypatch.setenv(
            "ARGUS_MODEL_URL", f"{gone}/elsewhere"
        )  # lists no models, which is no reason to stop
        assert model_of_settings() is not None
    monkeypatch.setenv("ARGUS_MODEL_URL", gone)
    for words in (["agent"], ["run", "--suite", "smoke", "--system", "agent"]):
        assert main(["eval", *words]) == 2
        told = capsys.readouterr()
        assert told.err.startswith(f"argus eval: no answer from the model at {gone}") and not told.out


def test_recordings_and_jobs_too_large_to_hold_are_not_put_to_a_model() -> None:
    assert not set(chosen([ALL], reads_traces=True, model=NOWHERE)) & set(asked_systems())
    assert not_measured([ALL], reads_traces=True, model=None) == ()
    with pytest.raises(CliError, match="no system 'agent'"):
        chosen(["agent"], reads_traces=True, model=NOWHERE)
    large = Trial(**{**vars(TRIAL), "ranks": 10_240})
    assert [side_by_side._takes(one, "agent") for one in (TRIAL, large)] == [True, False]
    assert side_by_side._takes(large, OURS)


@pytest.mark.slow
def test_the_command_puts_them_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Suite(ranks=(4,), severities=(1.5,), seeds=(4,), names=("slow_rank",))
    monkeypatch.setitem(board_suites.ALL_SUITES, "smoke", one)
    book, words = tmp_path / "book.jsonl", ["eval", "run", "--suite", "smoke", "--json", "--book"]
    monkeypatch.delenv("ARGUS_MODEL_URL", raising=False)
    assert main([*words, str(book), "--system", "agent"]) == 2
    assert "ARGUS_MODEL_URL" in capsys.readouterr().err
    with StubServer(SCRIPTS["confirm"]) as server:
        monkeypatch.setenv("ARGUS_MODEL_URL", server.url)
        assert main([*words, str(book), "--system", OURS, "--system", "agent"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["system"] for row in told["systems"]] == [OURS, "agent"] and told["not_measured"] == []
    kept = side_by_side.read_book(book)
    assert [line.system for line in lines(kept)] == [OURS, "agent"]
