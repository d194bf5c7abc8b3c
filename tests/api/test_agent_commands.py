"""`argus ask`, `argus chat`, `argus doctor`, `argus dev`: on a database and on a recording, with and without a model."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from argus.agent.model.message import Ask, Reply
from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.analytics.store import conversations
from argus.analytics.store.documents import dump
from argus.api.agent import agent_of, endpoint_of, limits_of
from argus.api.agent_metrics import AGENT_METRICS, make_agent_metrics
from argus.api.cli import main
from argus.api.cli.face import stored
from argus.api.cli.serve import product_analyses
from argus.api.settings import Settings, SettingsError
from argus.api.settings_sources import load_settings
from argus.evals.moments import moments
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, beats_body, new_service, new_store, upload

Out = pytest.CaptureFixture[str]

JOB = Job(run="job", ranks=4, steps=100)
FAULT = Fault(kind="compute", ranks=(2,), start_step=50, severity=1.8)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which the service lived through `JOB`."""
    path = tmp_path_factory.mktemp("agent") / "a.sqlite"
    store = new_store(path)
    done = simulate(JOB, (FAULT,), rng=np.random.default_rng(0))
    clock = FakeClock(JOB.start_s)
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    service.receive_layouts(dump({"layouts": [item.to_json() for item in done.layouts]}).encode())
    for moment in moments(done):
        clock.now_s = moment.now_s
        if moment.parts:
            service.receive_windows(upload(*moment.parts))
        if moment.beats:
            service.receive_heartbeats(beats_body(*moment.beats))
        while service.worker.turn(clock.now_s):
            pass
    store.close()
    return path


@pytest.fixture
def db(lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and nothing of the developer's own settings."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(lived.read_bytes())
    monkeypatch.chdir(tmp_path)
    of_tests = [name for name in os.environ if name.startswith("ARGUS_TEST_")]
    for name in ("ARGUS_MODEL_URL", "ARGUS_DB", "ARGUS_MODEL", "ARGUS_RUNBOOKS", *of_tests):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        monkeypatch.setenv("ARGUS_MODEL_URL", server.url)
        yield server


def told(capsys: Out) -> Any:
    return json.loads(capsys.readouterr().out)


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


@pytest.mark.slow
def test_without_a_model_the_triage_answers(db: Path, capsys: Out) -> None:
    assert main(["ask", "--db", str(db)]) == 0
    shown = capsys.readouterr().out
    assert "rank 2" in shown and "No model is set up" in shown
    assert main(["ask", "--db", str(db), "--json", "Why?"]) == 0
    body = told(capsys)
    assert body["answer"]["failure"] == "no_model" and body["diagnosis"]["root_causes"][0]["node"] == "rank:2"


@pytest.mark.slow
def test_an_investigation_adds_to_the_triage(db: Path, model: StubServer, capsys: Out) -> None:
    assert main(["ask", "--db", str(db), "--json"]) == 0
    body = told(capsys)
    assert (body["stage"], body["agent"]["stance"]) == ("agent", "agrees")
    assert main(["tools", "evidence", body["agent"]["pages"][-1], "--db", str(db)]) == 0
    assert told(capsys)["tool"] == "submit_diagnosis"


@pytest.mark.slow
@pytest.mark.parametrize("quirk", ["http-401", "html", "http-500", "context"])
def test_a_failing_model_leaves_the_triage_and_one_sentence(
    quirk: str, db: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    with StubServer(SCRIPTS["confirm"], quirks=[quirk]) as server:
        monkeypatch.setenv("ARGUS_MODEL_URL", server.url)
        assert main(["ask", "--db", str(db)]) == 1
    shown = capsys.readouterr().out
    assert "rank 2" in shown and shown.count("Without the model: ") == 1 and "Traceback" not in shown


@pytest.mark.slow
def test_the_card_is_there_before_a_model_is_asked(
    db: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    shown: list[str] = []

    def looking(ask: Ask) -> Reply:
        shown.append(capsys.readouterr().out)
        return SCRIPTS["confirm"](ask)

    with StubServer(looking) as server:
        monkeypatch.setenv("ARGUS_MODEL_URL", server.url)
        assert main(["ask", "--db", str(db)]) == 0
    assert "rank 2" in shown[0] and "Suspect" in shown[0]


@pytest.mark.slow
def test_a_conversation_is_kept_and_gone_on_with(
    db: Path, model: StubServer, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    typed(monkeypatch, "Which rank?", "/evidence ev-none", "/nothing", "/tools", "/why", "/help", "/quit")
    assert main(["chat", "--db", str(db)]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Suspect") < shown.index("list_findings →") < shown.index("The triage says")
    assert "no evidence 'ev-none'" in shown and "no command '/nothing'" in shown and "for: " in shown
    kept = shown.rsplit("--resume ", 1)[1].split()[0]
    typed(monkeypatch, "And why?")
    assert main(["chat", "--db", str(db), "--resume", kept]) == 0
    sent = [message["content"] for message in model.requests[-1]["messages"]]
    assert "Which rank?" in sent
    capsys.readouterr()
    assert main(["chat", "--db", str(db), "--list"]) == 0
    assert kept in capsys.readouterr().out
    box = stored(str(db))
    with box.facts.store.read() as connection:  # type: ignore[attr-defined]
        entries = conversations.entries(connection, kept)
    assert [item["role"] for item in entries] == ["user", "assistant"] * 2
    assert entries[1]["pages"] and entries[1]["spent"]["turns"] == 2


@pytest.mark.slow
def test_a_terminal_of_another_encoding_has_question_marks(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    typed_bytes = io.BytesIO("Which rank, caf\u00e9?\n".encode("latin-1"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(typed_bytes, encoding="utf-8"))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="latin-1"))
    assert main(["chat", "--db", str(db)]) == 0
    kept = shown.getvalue().rsplit(b"--resume ", 1)[1].split()[0].decode()
    box = stored(str(db))
    with box.facts.store.read() as connection:  # type: ignore[attr-defined]
        assert conversations.entries(connection, kept)[0]["text"] == "Which rank, caf\ufffd?"


@pytest.mark.slow
def test_a_recording_can_be_talked_about(
    tmp_path: Path, model: StubServer, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    for number, records in enumerate(simulate(JOB, (FAULT,), rng=np.random.default_rng(0)).records):
        (tmp_path / f"rank-{number}.argus").write_bytes(b"".join(rank_frames(records)))
    typed(monkeypatch, "/diagnose")
    assert main(["chat", "--recording", str(tmp_path)]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chat", "--db", "none.sqlite"], "no database"),
        (["ask", "--run", "other"], "no run 'other'"),
        (["ask", "--incident", "i-0"], "no incident 'i-0'"),
        (["ask", "--run", "\udcff"], "run must be text in UTF-8"),
        (["chat", "--resume", "nobody"], "no conversation"),
        (["doctor"], "ARGUS_MODEL_URL"),
        (["doctor", "--url", "http://x", "--profile", "vlm"], "vllm"),
        (["dev", "stub-llm", "--script", "genius"], "confirm"),
        (["dev", "stub-llm", "--quirk", "none"], "finish-stop"),
        (["dev", "stub-llm", "--port", "99999"], "cannot listen"),
    ],
)
def test_what_is_wrong_is_one_sentence(db: Path, words: list[str], said: str, capsys: Out) -> None:
    where = ["--db", str(db)] if words[0] in ("ask", "chat") and "--db" not in words else []
    assert main([*words, *where]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_the_doctor_says_it_in_json_too(model: StubServer, capsys: Out) -> None:
    assert main(["doctor", "--json"]) == 0
    assert all(check["ok"] for check in told(capsys)["checks"] if check["is_needed"])


def test_the_scripts_and_quirks_are_listed(capsys: Out) -> None:
    assert main(["dev", "stub-llm", "--list"]) == 0
    assert "plausible" in capsys.readouterr().out


@pytest.mark.slow
def test_what_the_agent_uses_up_is_counted(db: Path, model: StubServer) -> None:
    import asyncio

    registry = CollectorRegistry()
    settings, _ = load_settings(env={"ARGUS_MODEL_URL": model.url})
    agent, _ = agent_of(settings, metrics=make_agent_metrics(registry))
    box = stored(str(db))
    asyncio.run(agent.investigate(box, agent.case(box)))
    asyncio.run(agent.answer(box, agent.case(box), question="Why?"))
    text = generate_latest(registry).decode()
    assert 'argus_agent_tool_calls_total{status="ok",tool="list_findings"} 2.0' in text
    assert 'stance="agrees"' in text and 'argus_agent_answers_total{result="clean"} 1.0' in text
    assert all(name.removesuffix("_total") in text for name, _, _ in AGENT_METRICS)


def test_a_budget_that_could_not_be_kept_is_refused() -> None:
    dear = {"ARGUS_MODEL_USD": "0.5", "ARGUS_MODEL_USD_IN": "3"}
    settings, _ = load_settings(env=dear)
    assert limits_of(settings).max_usd == 0.5
    with pytest.raises(SettingsError, match="no price is set"):
        limits_of(load_settings(env={"ARGUS_MODEL_USD": "0.5"})[0])


def test_an_endpoint_that_speaks_no_http_is_refused() -> None:
    wrong = ("ftp://model", "file:///etc/passwd", "://", "http://", "http:///v1", "http://[::1", "model:a/v1")
    for url in (*wrong, "http://model:70000/v1", "http://ada:secret@a model/v1"):
        with pytest.raises(SettingsError, match="model_url must be a URL like") as refused:
            endpoint_of(Settings(model_url=url))
        assert "secret" not in str(refused.value)
    found = endpoint_of(Settings(model_url="model:8000/v1/"))
    assert found is not None and found.url == "http://model:8000/v1"


def test_bad_runbooks_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("+++\nclasses = ['no.such']\n+++\n# X")
    settings, _ = load_settings(env={"ARGUS_RUNBOOKS": str(tmp_path)})
    _, problems = agent_of(settings)
    assert len(problems) == 1 and "x.md" in problems[0]
