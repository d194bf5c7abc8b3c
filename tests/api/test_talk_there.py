"""`argus ask` and `argus chat` against a running service: its model, its database, its key."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.api.cli import main
from argus.api.cli.over_http import read_events
from tests.api.desk.served import lived
from tests.api.served import listening_on

Out = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

KEY = "s3cret"


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        yield server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, model: StubServer) -> Iterator[str]:
    """URL of a service that lived through a job with a slow rank and has a model."""
    folder = tmp_path_factory.mktemp("there")
    with lived(folder, key=KEY, model_url=model.url, model="m") as at, listening_on(at.app) as url:
        yield url


@pytest.fixture
def url(served: str, tmp_path: Path, monkeypatch: Patch) -> str:
    """The service, seen from a machine that knows only its key."""
    monkeypatch.chdir(tmp_path)
    for name in ("ARGUS_MODEL_URL", "ARGUS_DB", "ARGUS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARGUS_KEY", KEY)
    return served


def typed(monkeypatch: Patch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


@pytest.mark.slow
def test_a_question_is_answered_there(url: str, capsys: Out, tmp_path: Path) -> None:
    assert main(["ask", "Which rank?", "--server", url, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["answer"]["num_pointed"] == 1 and body["conversation"]
    assert body["diagnosis"]["root_causes"][0]["node"] == "rank:2"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_investigation_is_made_there(url: str, monkeypatch: Patch, capsys: Out) -> None:
    monkeypatch.setenv("ARGUS_SERVER", url)
    assert main(["ask", "--run", "job"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Suspect") < shown.index("agrees") and "rank 2" in shown
    assert (
        "unknown" not in shown.split("agrees")[1]
    )  # numbers of the model's claims come from the service's pages


@pytest.mark.slow
def test_a_chat_shows_steps_and_evidence_and_goes_on_later(
    url: str, model: StubServer, monkeypatch: Patch, capsys: Out
) -> None:
    typed(monkeypatch, "Which rank?", "/why", "/tools", "/evidence ev-none", "/diagnose")
    assert main(["chat", "--server", url]) == 0
    shown = capsys.readouterr().out
    assert "list_findings →" in shown and "for: " in shown and "compare_phase:" in shown
    assert "no evidence 'ev-none'" in shown and "agrees" in shown
    opened = shown.split("list_findings → ")[1].split()[0]
    kept = shown.rsplit("--resume ", 1)[1].split()[0]
    typed(monkeypatch, "And why?", f"/evidence {opened}")
    assert main(["chat", "--server", url, "--resume", kept]) == 0
    assert '"tool": "list_findings"' in capsys.readouterr().out
    assert "Which rank?" in [message["content"] for message in model.requests[-1]["messages"]]
    assert main(["chat", "--server", url, "--list"]) == 0
    assert kept in capsys.readouterr().out


@pytest.mark.slow
def test_a_question_that_is_refused_does_not_end_the_chat(url: str, monkeypatch: Patch, capsys: Out) -> None:
    typed(monkeypatch, "x" * 5000, "Which rank?", "y" * 5000)
    assert main(["chat", "--server", url]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("at most 4000 characters") == shown.err.count("\n") == 2
    assert "list_findings →" in shown.out and "kept: argus chat --resume " in shown.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        (["ask"], "wrong", "key"),
        (["ask", "--run", "jub"], KEY, "no run 'jub'"),
        (["chat", "--resume", "nobody"], KEY, "no conversation 'nobody'"),
        (["chat", "--list"], "", "key"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: list[str], key: str, said: str, url: str, monkeypatch: Patch, capsys: Out
) -> None:
    monkeypatch.setenv("ARGUS_KEY", key)
    typed(monkeypatch)
    assert main([*words, "--server", url]) == 1
    error = capsys.readouterr().err
    assert said in error.lower() and error.count("\n") == 1


def test_a_service_that_is_not_there_is_said(monkeypatch: Patch, capsys: Out) -> None:
    assert main(["ask", "--server", "http://127.0.0.1:9"]) == 1
    assert "is `argus serve` up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (": ping\n\nevent: a\ndata: {\ndata: }\n\n", [("a", {})]),
        ("data: {}\r\n\r\n", [("message", {})]),
        ("event: a\ndata: [1]\n\nevent: b\ndata: {\n\n", []),
        ("event: cut\ndata: {}\n", []),
        ("id: 7\nretry: 3\nevent:a\ndata:{}\n\n", [("a", {})]),
    ],
)
def test_events_are_read_as_the_standard_says(text: str, told: list[tuple[str, dict[str, int]]]) -> None:
    assert list(read_events(text.splitlines(keepends=True))) == told
