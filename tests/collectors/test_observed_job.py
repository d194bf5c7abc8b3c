"""A real job under a real processor: with py-spy, without it, and where ptrace is denied."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import argus
from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.host.pyspy import find_pyspy
from argus.collectors.host.window import cut
from argus.collectors.readers.recording import read
from argus.collectors.records.plan import WindowPlan

pytestmark = pytest.mark.slow

ROOT = Path(argus.__file__).parents[1]
SITE = sysconfig.get_paths()["purelib"]

# Steps of 0.1 s; one lasts 0.35 s longer, one 8 s: long enough for the report that follows a failed dump.
SCRIPT = """
import ctypes, os, time, torch
torch.set_num_threads(1)
if os.environ.get("UNDUMPABLE"):
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE: reading us takes CAP_SYS_PTRACE
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(26):
    net(torch.ones(2, 4)).sum().backward()
    time.sleep({20: 0.45, 24: 8.0}.get(i, 0.1))
    optimizer.step()
print("trained", i + 1, flush=True)
"""

# Drops CAP_SYS_PTRACE for good, then becomes the command.
WEAK = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def processor(
    service: FakeService,
    socket: Path,
    *,
    python: str = sys.executable,
    path: str,
    prefix: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
) -> Iterator[list[str]]:
    """A processor of its own interpreter and PATH, ended afterwards; the lines are what it said, at the end."""
    options = [
        "-m",
        "argus",
        "processor",
        "--socket",
        str(socket),
        "--server",
        service.url,
        "--ring-bytes",
        "0",
    ]
    env = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    env |= {"PATH": path, "PYTHONPATH": os.pathsep.join([str(ROOT), SITE])}
    child = subprocess.Popen(
        [*prefix, python, *options, "--metrics-port", "-1", *more],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    words: list[str] = []
    try:
        assert child.stderr is not None and "listens" in child.stderr.readline()
        yield words
    finally:
        child.terminate()
        words += child.communicate(timeout=30)[1].splitlines()


def train(tmp_path: Path, socket: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    command = [
        sys.executable,
        "-m",
        "argus",
        "run",
        "--no-processor",
        "--socket",
        str(socket),
        "--run",
        "job",
    ]
    return subprocess.run(
        [*command, "--", sys.executable, str(script)],
        env=clean | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.skipif(find_pyspy() is None, reason="py-spy is not installed")
def test_a_step_300_ms_too_long_is_dumped_while_it_is_open_and_windows_say_what_the_host_did(
    tmp_path: Path,
) -> None:
    socket, record = tmp_path / "s" / "p.sock", tmp_path / "record"
    beside = str(Path(find_pyspy() or "").parent)
    with serve(FakeService()) as service:
        where = f"{beside}:{os.environ['PATH']}"
        with processor(service, socket, path=where, more=("--record", str(record))):
            done = train(tmp_path, socket)
        assert (done.returncode, done.stdout) == (0, "trained 26\n"), done.stderr
        slow = [dump for dump in service.stacks if dump.reason == "slow_step" and not dump.error]
        assert {dump.step for dump in slow} >= {20, 24}  # a loaded machine makes others slow, too
        assert min(dump.open_s for dump in slow if dump.step == 20) < 0.45
        assert len([dump for dump in slow if dump.step == 24]) >= 3  # again each second
        assert all(
            "train.py" in thread.stack for dump in slow for thread in dump.threads if thread.kind == "main"
        )
        [*_, last] = [window for _, window in sorted(service.windows.items())]
        assert last.use["cpu_ratio"] >= 0 and "thread_run_delay_ratio" in last.use
        assert service.reports[-1].parts["stacks"] == "ok"
        assert_recorded_too(record / "rank-0.argus", service)
    assert not [path for path in socket.parent.iterdir() if ".step-" in path.name]


def assert_recorded_too(path: Path, service: FakeService) -> None:
    """A recording knows of the host what the service knows."""
    (reading,) = read(path)
    assert not reading.warnings
    sent = {(one.ts_s, one.reason, one.step) for one in service.stacks}
    assert {(one.ts_s, one.reason, one.step) for one in reading.records.stacks} == sent
    told = [window for _, window in sorted(service.windows.items())]
    [*_, last] = cut(reading.records, WindowPlan(first=told[0].num_steps))
    assert last.use == pytest.approx(told[-1].use, rel=0.5, abs=0.05) and last.steps.tobytes()


def test_without_pyspy_the_job_is_observed_and_status_says_what_is_missing(tmp_path: Path) -> None:
    socket, python = tmp_path / "s" / "p.sock", tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    with (
        serve(FakeService()) as service,
        processor(service, socket, python=str(python), path="/usr/bin:/bin") as words,
    ):
        done = train(tmp_path, socket)
    assert (done.returncode, done.stdout) == (0, "trained 26\n"), done.stderr
    assert service.reports[-1].parts["stacks"] == "not_installed"
    assert sum("pip install" in line for line in words) == 1
    assert service.stacks == [] and len(service.windows) == 3


@pytest.mark.skipif(find_pyspy() is None, reason="py-spy is not installed")
def test_where_ptrace_is_denied_the_job_is_observed_and_the_fact_is_recorded(tmp_path: Path) -> None:
    socket = tmp_path / "s" / "p.sock"
    beside = str(Path(find_pyspy() or "").parent)
    with serve(FakeService()) as service:
        prefix = (sys.executable, "-c", WEAK)
        with processor(service, socket, path=f"{beside}:/usr/bin:/bin", prefix=prefix) as words:
            done = train(tmp_path, socket, UNDUMPABLE="1")
    assert (done.returncode, done.stdout) == (0, "trained 26\n"), done.stderr
    assert {dump.error for dump in service.stacks} == {"denied"}
    assert service.reports[-1].parts["stacks"] == "denied"
    assert sum("ptrace is denied" in line for line in words) == 1
    assert len(service.windows) == 3
