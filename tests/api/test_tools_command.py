"""`argus tools`: over a recording, a database and a running service."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from argus.agent.registry import registry
from argus.api.cli import main
from argus.api.http.app import make_app
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.simulate import simulate
from tests.agent.jobs import FAULT, JOB, SLOW
from tests.api.kit import FakeClock, service_at

Out = pytest.CaptureFixture[str]


def told(capsys: Out) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_list_names_every_tool_and_argument(capsys: Out) -> None:
    assert main(["tools", "list"]) == 0
    text = capsys.readouterr().out
    for tool in registry().tools.values():
        assert f"{tool.name}" in text and all(f"    {argument.name}" in text for argument in tool.arguments)
    assert main(["tools", "list", "--json"]) == 0
    assert len(told(capsys)["tools"]) == len(registry().tools)


@pytest.mark.slow
def test_a_recording_can_be_asked(tmp_path: Path, capsys: Out) -> None:
    done = simulate(JOB, (FAULT,), rng=np.random.default_rng(0))
    for records in done.records:
        path = tmp_path / f"rank-{records.layout.rank}.argus"
        path.write_bytes(b"".join(rank_frames(records)))
    where = ["--recording", str(tmp_path)]
    assert (
        main(
            ["tools", "call", "compare_phase", "--json", f'{{"ranks": [{SLOW}], "phase": "forward"}}', *where]
        )
        == 0
    )
    answer = told(capsys)
    assert answer["data"]["rows"][0]["ratio"] > 1.2
    assert main(["tools", "call", "compare_phase", "--json", '{"ranks": [99]}', *where]) == 0
    assert told(capsys)["close"] == ["rank 7"]


def test_a_database_keeps_what_was_answered(tmp_path: Path, capsys: Out) -> None:
    db = tmp_path / "a.sqlite"
    with service_at(db, clock=FakeClock()):
        pass
    assert main(["tools", "call", "list_findings", "--db", str(db)]) == 0
    answer = told(capsys)
    assert main(["tools", "evidence", answer["evidence_id"], "--db", str(db)]) == 0
    assert told(capsys) == answer
    assert main(["tools", "evidence", "ev-0", "--db", str(db)]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tools", "call", "x", "--json", "{"], "is no JSON"),
        (["tools", "call", "x", "--json", "[]"], "must be an object"),
        (["tools", "call", "x", "--db", "none.sqlite"], "there is no database none.sqlite"),
        (["tools", "call", "x", "--recording", "none"], "none"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], said: str, capsys: Out) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_an_empty_file_is_no_database_of_ours(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a.sqlite").touch()
    assert main(["tools", "call", "list_findings", "--db", str(tmp_path / "a.sqlite")]) == 2
    assert "of another version" in capsys.readouterr().err


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        monkeypatch.setenv("ARGUS_SERVER", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield ""
        server.should_exit = True
        thread.join()
    listener.close()


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_a_service_can_be_asked(capsys: Out) -> None:
    assert main(["tools", "call", "list_findings"]) == 0
    answer = told(capsys)
    assert answer["status"] == "no_data"
    assert main(["tools", "evidence", answer["evidence_id"]]) == 0
    assert told(capsys) == answer
    assert main(["tools", "call", "list_findings", "--json", '{"rang": 1}']) == 2
    assert "did you mean 'rank'" in told(capsys)["note"]
    assert main(["tools", "call", "list_finding"]) == 1
    assert "no tool 'list_finding'" in capsys.readouterr().err
