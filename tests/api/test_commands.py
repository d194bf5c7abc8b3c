"""Commands that ask a running service, against a real server on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from argus.api.cli import main
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.readers._fake import fake_trace
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.report import Report
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, beats_body, make_beat, service_at

ROOT = Path(__file__).parents[2]

HEAVY = ("networkx", "openai", "ray", "scipy", "torch", "yaml")
"""Libraries whose import takes a quarter of a second or more, or that a command may do without."""


@pytest.mark.parametrize("command", ["triage", "serve", "processor", "run"])
def test_a_command_starts_without_what_it_may_never_use(command: str) -> None:
    code = (
        f"import sys; from argus.api.cli import load; load({command!r});"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--help"], ["status", "--help"], ["tools", "list"]])
def test_a_reader_that_has_gone_ends_a_command_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "argus", *words]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["tools", "list", "--json"]])
def test_a_full_disk_under_stdout_is_one_sentence(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "argus", *words]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"), [("triage --json {} 2>&-", 1), ("triage {} >&-", 1), ("chat --recording {} <&-", 0)]
)
def test_a_closed_stream_leads_nowhere(command: str, code: int, tmp_path: Path) -> None:
    for rank in range(2):
        text = json.dumps(fake_trace(rank=rank, world_size=3, num_steps=2))
        (tmp_path / f"rank{rank}.json").write_text(text)
    line = f"{sys.executable} -m argus {command.format(tmp_path)}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    if "--json" in command:  # what goes to stderr did not go to the other one instead
        assert json.loads(done.stdout)["warnings"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        raw = json.loads(beats_body(*(make_beat(rank, ts_s=clock.now_s, run="my/job") for rank in range(2))))
        report = Report(host="h-0", parts={"stacks": "denied"}, dropped={"dropped_events rank": 3.0})
        service.receive_heartbeats(json.dumps({**raw, "processor": report.to_json()}).encode())
        sample = HostSample(host="h-0", start_s=1.0, end_s=11.0, numbers={"cpu_some_s": 5.0})
        raw = {"stacks": [], "dumps": [], "samples": [sample.to_json()]}
        service.receive_observations(json.dumps(raw).encode())
        yield service


@pytest.fixture
def url(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("ARGUS_SERVER", url)
    yield url
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_status_tells_what_is_seen_and_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--run", "my/job"]) == 0
    text = capsys.readouterr().out
    for part in (
        "host h-0",
        "stacks: denied",
        "lost: 3 dropped_events rank",
        "cpu some 50%",
        "rank 1: running",
    ):
        assert part in text
    assert main(["status", "--run", "my/job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"][0]["host"] == "h-0"
    assert main(["status"]) == 0
    assert "my/job attempt 0" in capsys.readouterr().out


def test_status_says_how_many_runs_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    item = {"run": "a", "attempt": 0, "status": "live", "ranks": {"running": 8}, "open_incidents": 1}
    monkeypatch.setattr("argus.api.cli.status.ask", lambda url: {"items": [item] * 2, "total": 5})
    assert main(["status"]) == 0
    told = capsys.readouterr()
    assert told.out.count("a attempt 0: live, 8 running, 1 open incident\n") == 2 and "and 3 runs" in told.err


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_off_and_on(capsys: pytest.CaptureFixture[str], service: Service) -> None:
    assert main(["off", "--run", "my/job"]) == 0
    assert main(["status", "--run", "my/job"]) == 0
    assert "switched OFF" in capsys.readouterr().out
    assert main(["on", "--run", "my/job"]) == 0
    assert main(["status", "--run", "my/job"]) == 0
    assert "switched OFF" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_what_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["off", "--run", "none"]) == 1
    assert capsys.readouterr().err == "argus off: no run 'none'\n"


def test_what_others_call_things_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for name in ("a\x1b[2J.json", "b\x1b[2J.json"):
        (traces / name).write_text('{"traceEvents": 3')
    simulated = simulate(Job(run="job", ranks=2, steps=60), (), rng=np.random.default_rng(0))
    for records in simulated.records:
        (traces / f"rank-{records.layout.rank}.argus").write_bytes(b"".join(rank_frames(records)))
    assert main(["ask", "--recording", str(traces)]) == 0
    assert main(["ask", "--recording", str(traces / "a\x1b[2J.json")]) != 0
    told = capsys.readouterr().err
    assert told.count("[2J.json") == 3 and "\x1b" not in told


def test_no_service_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["status", "--server", server]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_stacks_are_compared_with_the_peers(capsys: pytest.CaptureFixture[str], service: Service) -> None:
    lock = "train (t.py:1);acquire (threading.py:9)"
    dumps = [
        StackDump(
            run="my/job",
            attempt=0,
            rank=rank,
            host="h-0",
            ts_s=float(n),
            step=n,
            threads=(Thread(kind="main", state="S", stack=lock if rank == 1 else "train (t.py:1)"),),
        )
        for rank in range(2)
        for n in range(3)
    ]
    service.receive_observations(json.dumps({**encode_stacks(dumps), "samples": []}).encode())
    words = ["stacks", "--run", "my/job", "--against-peers"]
    assert main([*words, "--rank", "1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["items"][0]
    assert first == {"stack": lock, "share": 1.0, "peers_share": 0.0}
    assert main([*words, "--rank", "1"]) == 0
    assert "100% of theirs, 0% of the others'" in capsys.readouterr().out
    assert main(words) == 2
    capsys.readouterr()
