"""A signal ends a command in order: the exit code of the signal, no traceback, no file and no child left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import interrupts
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from tests.api.process import ROOT, environment, start, wait_for


@pytest.fixture(autouse=True)
def nothing_ignored() -> Iterator[None]:
    """Commands start as from a terminal: in the background of a script SIGINT is ignored, under nohup SIGHUP."""
    ignored = [one for one in (signal.SIGINT, *interrupts.ENDING) if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        signal.signal(one, signal.SIG_DFL)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


def ended(
    words: list[str], number: signal.Signals, *, when: Callable[[int], bool], scratch: Path
) -> tuple[int, str]:
    """Exit code and stderr of a command that gets a signal once something holds of its process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "argus", *words],
        cwd=ROOT,
        env=environment(TMPDIR=str(scratch)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: when(process.pid))
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, said


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_was_unpacked_is_not_left_behind(number: signal.Signals, tmp_path: Path, scratch: Path) -> None:
    recorded = simulate(Job(run="job", ranks=2, steps=60), (), rng=np.random.default_rng(0)).records
    archive = tmp_path / "traces.tar"
    with tarfile.open(archive, "w") as packed:
        for records in recorded:
            file = tmp_path / f"rank-{records.layout.rank}.argus"
            file.write_bytes(b"".join(rank_frames(records)))
            for copy in range(100):
                packed.add(file, f"{copy}/{file.name}")
    code, said = ended(
        ["triage", str(archive)], number, when=lambda pid: any(scratch.glob("*/*")), scratch=scratch
    )
    assert (said, list(scratch.iterdir())) == ("", [])
    assert code in (
        128 + number,
        -number,
    )  # the latter where it came while Python ran a text, as for a dataclass


@pytest.mark.slow
def test_a_probe_that_is_ended_ends_what_it_started(scratch: Path) -> None:
    started: list[int] = []

    def are_up(pid: int) -> bool:
        started[:] = children(pid)
        return len(started) == 2

    words = [
        "probe",
        "--hosts",
        "localhost",
        "--peers",
        "127.0.0.1",
        "--seconds",
        "90",
        "--device",
        "cpu",
        "--no-post",
    ]
    code, said = ended(words, signal.SIGTERM, when=are_up, scratch=scratch)
    assert code == 143 and said.count("\n") == 1  # that it is probing
    wait_for(lambda: not any(map(is_there, started)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_tools_on_stdio_end_while_their_client_is_silent(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "argus", "mcp", "--server", "http://127.0.0.1:9"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        code = process.wait(30)  # stdin stays open: its reader waits for the next line
        assert code == -number and process.communicate()[1] == ""
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_service_whose_terminal_closes_ends_in_order(tmp_path: Path) -> None:
    service = start(tmp_path / "a.sqlite", module=("-m", "argus", "serve"))
    service.process.send_signal(signal.SIGHUP)
    assert service.process.wait(60) == 0 and service.process.communicate() == ("", "")


def test_only_what_is_left_to_python_is_taken_over() -> None:
    before = [signal.getsignal(one) for one in interrupts.ENDING]
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with interrupts.orderly_end():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(SystemExit) as end:
                os.kill(os.getpid(), signal.SIGTERM)
            assert end.value.code == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        for one, handler in zip(interrupts.ENDING, before, strict=True):
            signal.signal(one, handler)
    raised: list[ValueError] = []

    def elsewhere() -> None:
        try:
            with interrupts.orderly_end():
                pass
        except ValueError as error:  # of signal.signal
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not raised
