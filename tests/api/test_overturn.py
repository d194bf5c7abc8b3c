"""Overturning a likely cause end to end: evidence that came in late, `fuse` run again with it, both shown else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from argus.agent.answer import outcome_lines
from argus.agent.case import Case
from argus.agent.loop.course import Step
from argus.agent.loop.investigate import Outcome
from argus.agent.model.message import Ask, Reply
from argus.agent.stub_llm import scripts
from argus.agent.stub_llm.seen import blank_call, calling, pages, triage_of
from argus.agent.stub_llm.server import StubServer
from argus.analytics.incident import Incident
from argus.analytics.store.documents import dump
from argus.api.agent import agent_of
from argus.api.cli.serve import product_analyses
from argus.api.look_again import look_again_on
from argus.api.service import Service
from argus.api.settings import Settings
from argus.api.toolbox import toolbox_of
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from argus.evals.simulator.job import Fault, Job
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import live

SUSPECT, ONSET = 1, 80
JOB = Job(run="job", ranks=4, ranks_per_host=4, steps=140, step_s=0.3, gpu=False)
FAULT = Fault(kind="starved", ranks=(SUSPECT,), start_step=ONSET, severity=1.5)

WORK = "train (t.py:1);forward (model.py:3)"
FILES = "train (t.py:1);open (<frozen io>:1)"

BEFORE, NOW = "host.cpu_starved", "host.filesystem"


@dataclass(frozen=True)
class Lived:
    """A service after a job with a starved rank, of which nobody had seen a stack."""

    path: Path
    now_s: float


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    path = tmp_path_factory.mktemp("overturn") / "a.sqlite"
    store, clock = new_store(path), FakeClock(JOB.start_s)
    live(new_service(store, clock=clock, analyses=product_analyses(), window_steps=10), clock, JOB, [FAULT])
    store.close()
    return Lived(path=path, now_s=clock.now_s)


@pytest.fixture
def service(lived: Lived, tmp_path: Path) -> Iterator[Service]:
    path = tmp_path / "a.sqlite"
    path.write_bytes(lived.path.read_bytes())
    store = new_store(path)
    yield new_service(store, clock=FakeClock(lived.now_s), analyses=product_analyses(), window_steps=10)
    store.close()


def come_late(service: Service, stack: str) -> None:
    """Stacks of slow steps that a host could send only now: the suspect's, and its peers at work."""
    dumps = [
        StackDump(
            run=JOB.run,
            attempt=0,
            rank=rank,
            host=JOB.host(rank),
            ts_s=service.clock() - 12.0 + number,
            step=ONSET + 4 * number,
            reason="slow_step" if rank == SUSPECT else "peer",
            threads=(Thread(kind="main", state="S", stack=stack if rank == SUSPECT else WORK),),
        )
        for number in range(12)
        for rank in range(JOB.ranks)
    ]
    service.receive_observations(dump({"host": JOB.host(0), **encode_stacks(dumps), "samples": []}).encode())


def looking_at(tool: str, path: str) -> scripts.Script:
    """A model that takes the suspect to wait for files, and points to a number of one page."""

    def script(ask: Ask) -> Reply:
        triage = triage_of(ask)
        assert triage is not None
        if not any("stacks" in page.data for page in pages(ask)):
            return calling(blank_call(ask, "stacks"))
        page = next(page for page in pages(ask) if page.id == triage.id or "stacks" in page.data)
        if tool == "stacks":
            page = next(page for page in pages(ask) if "stacks" in page.data)
        cited = scripts.claim(
            "c1",
            "One stack stands alone among {v}: it opens a file.",
            values=[scripts.pointer("v", page.id, path)],
        )
        root = {"node": triage.data["scope"], "fault_class": NOW, "claim_ids": ["c1"]}
        return scripts.submit(ask, verdict="LIKELY", confidence=0.8, root_causes=[root], claims=[cited])

    return script


def investigated(service: Service, script: scripts.Script) -> tuple[Case, Outcome, list[str], str]:
    """The case, the outcome, the kinds of steps, the text shown."""
    steps: list[Step] = []
    with StubServer(script) as server:
        agent, _ = agent_of(Settings(model_url=server.url, model="m", model_context=32_768))
        box = toolbox_of(service)
        case = agent.case(box)
        outcome = asyncio.run(agent.investigate(box, case, watch=steps.append))
    text = "\n".join(outcome_lines(outcome, book=box.book))
    return case, outcome, [step.what for step in steps], text


def classes(roots: object) -> list[str]:
    assert isinstance(roots, list | tuple)
    return [root["fault_class"] for root in roots]


@pytest.mark.slow
def test_what_came_in_late_and_fuse_bears_out_becomes_the_answer(service: Service) -> None:
    come_late(service, FILES)
    case, outcome, steps, text = investigated(service, looking_at("stacks", "/num_ranks"))
    assert classes(case.diagnosis["root_causes"]) == [BEFORE] and case.diagnosis["verdict"] != "INCONCLUSIVE"
    assert (outcome.stage, outcome.stance) == ("agent", "overturns"), (outcome.note, outcome.dropped)
    assert classes(outcome.diagnosis["root_causes"]) == [NOW] and "looking" in steps
    assert outcome.diagnosis["verdict"] in ("LIKELY", "CONFIRMED")
    assert any(item["name"] == "stack_share" for item in outcome.diagnosis["evidence"])
    assert "New evidence changed the decision" in text and "among 4" in text


@pytest.mark.slow
def test_what_fuse_does_not_bear_out_is_shown_beside_the_triage(service: Service) -> None:
    come_late(service, WORK)
    case, outcome, steps, text = investigated(service, looking_at("stacks", "/num_ranks"))
    assert (outcome.stage, outcome.stance) == ("triage", "differs") and "looking" in steps
    assert outcome.diagnosis == case.diagnosis and classes(outcome.view) == [NOW]
    assert f"leans to {NOW}" in text and "among 4" in text


@pytest.mark.slow
def test_citing_what_the_triage_knew_is_not_enough(service: Service) -> None:
    come_late(service, FILES)
    _, outcome, steps, _ = investigated(service, looking_at("triage", "/onset_step"))
    assert outcome.stance == "differs" and "looking" not in steps


def the_incident(service: Service) -> Incident:
    found = agent_of(Settings())[0].case(toolbox_of(service)).incident
    assert found is not None
    return found


@pytest.mark.slow
def test_a_second_look_at_the_same_evidence_says_the_same(service: Service) -> None:
    incident = the_incident(service)
    again = toolbox_of(service).look_again(incident)
    assert incident.diagnosis is not None and again is not None
    for key in ("root_causes", "verdict"):
        assert [*map(str, again[key])] == [*map(str, incident.diagnosis[key])]


@pytest.mark.slow
def test_a_second_look_that_fails_changes_nothing(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    def broken(run: str, attempt: int, *, launch: int) -> None:
        raise RuntimeError("a detector of mine")

    analyses = replace(service.analyses, begin=broken)  # type: ignore[arg-type]
    with caplog.at_level(logging.CRITICAL):
        assert look_again_on(service.store, analyses)(the_incident(service)) is None


@pytest.mark.slow
def test_of_what_is_not_kept_there_is_no_second_look(service: Service) -> None:
    incident, again = the_incident(service), toolbox_of(service).look_again
    assert again(replace(incident, run="another")) is None
    assert again(replace(incident, last_window=incident.last_window + 500, status="resolved")) is None
    stop = replace(incident, cause=replace(incident.cause, fault_class="stop.lost"))
    assert again(stop) is None  # no such incident is stored
