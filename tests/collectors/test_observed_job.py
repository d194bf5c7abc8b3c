"""A real job under a real processor: with py-spy, without it, and where ptrace is denied."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.host.pyspy import find_pyspy
from argus.collectors.host.window import cut
from argus.collectors.readers.recording import read
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.stacks import StackDump
from tests.collectors.under_run import PLAIN, ROOT

pytestmark = pytest.mark.slow

SITE = sysconfig.get_paths()["purelib"]

# Steps of 0.1 s; one lasts 0.35 s longer, one 6 s: long enough for the report that follows a failed dump.
SCRIPT = (
    PLAIN
    + """
import ctypes, os, time
if os.environ.get("UNDUMPABLE"):
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE: reading us takes CAP_SYS_PTRACE
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {})
for i in range(26):
    net(torch.ones(2, 4)).sum().backward()
    time.sleep({20: 0.45, 24: 6.0}.get(i, 0.1))
    optimizer.step()
print("trained", i + 1, flush=True)
"""
)

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
    command = [*prefix, python, *options, "--metrics-port", "-1", *more]
    said, words = socket.parent.with_suffix(".log"), list[str]()
    with said.open("w") as log:
        child = subprocess.Popen(command, env=env, stderr=log, cwd=ROOT)
    try:
        until_s = time.monotonic() + 60
        while "listens" not in said.read_text():
            assert child.poll() is None and time.monotonic() < until_s, said.read_text()
            time.sleep(0.05)
        yield words
    finally:
        child.terminate()
        child.wait(30)
        words += said.read_text().splitlines()


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A job that ended, what its service got and what its processor said."""

    service: FakeService
    words: Sequence[str]
    folder: Path


def observe(
    folder: Path,
    *,
    path: str,
    python: str = sys.executable,
    prefix: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Observed:
    """Train under a processor of its own, which records as well."""
    folder.mkdir()
    script, socket = folder / "train.py", folder / "s" / "p.sock"
    script.write_text(SCRIPT)
    command = ("-m", "argus", "run", "--no-processor", "--socket", str(socket), "--run", "job")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    more = ("--record", str(folder / "record"))
    with (
        serve(FakeService()) as service,
        processor(service, socket, python=python, path=path, prefix=prefix, more=more) as words,
    ):
        done = subprocess.run(
            [sys.executable, *command, "--", sys.executable, str(script)],
            env=clean | {"PYTHONPATH": str(ROOT)} | dict(env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert (done.returncode, done.stdout) == (0, "trained 26\n"), done.stderr
    return Observed(service=service, words=words, folder=folder)


@pytest.mark.skipif(find_pyspy() is None, reason="py-spy is not installed")
def test_a_job_is_observed_with_pyspy_without_it_and_where_ptrace_is_denied(tmp_path: Path) -> None:
    """The three at once: they mostly wait."""
    beside = str(Path(find_pyspy() or "").parent)
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.symlink_to(Path(sys.executable).resolve())
    weak = (sys.executable, "-c", WEAK)
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(observe, tmp_path / "seen", path=f"{beside}:{os.environ['PATH']}")
        lacking = pool.submit(observe, tmp_path / "lacking", python=str(bare), path="/usr/bin:/bin")
        denied = pool.submit(
            observe,
            tmp_path / "denied",
            path=f"{beside}:/usr/bin:/bin",
            prefix=weak,
            env={"UNDUMPABLE": "1"},
        )
    assert_a_step_300_ms_too_long_is_dumped_while_it_is_open_and_windows_say_what_the_host_did(seen.result())
    assert_status_says_that_pyspy_is_missing(lacking.result())
    assert_the_denial_is_recorded(denied.result())


def assert_a_step_300_ms_too_long_is_dumped_while_it_is_open_and_windows_say_what_the_host_did(
    job: Observed,
) -> None:
    """Dumps of step 20 while it lasted, of step 24 each second; the use of the host in windows and recording."""
    service = job.service
    slow = [dump for dump in service.stacks if dump.reason == "slow_step" and not dump.error]
    assert {dump.step for dump in slow} >= {20, 24}  # a loaded machine makes others slow, too
    assert min(dump.open_s for dump in slow if dump.step == 20) < 0.45
    # Not all of them: a step may end under a dump's hands.
    shown = [dump.step for dump in slow if "train.py" in main_stack_of(dump)]
    assert shown.count(20) >= 1 and shown.count(24) >= 3  # again each second
    [*_, last] = [window for _, window in sorted(service.windows.items())]
    assert last.use["cpu_ratio"] >= 0 and "thread_run_delay_ratio" in last.use
    assert service.reports[-1].parts["stacks"] == "ok"
    assert_recorded_too(job.folder / "record" / "rank-0.argus", service)
    assert not [path for path in (job.folder / "s").iterdir() if ".step-" in path.name]


def main_stack_of(dump: StackDump) -> str:
    """Of its main thread; empty where the dump has none."""
    return "".join(thread.stack for thread in dump.threads if thread.kind == "main")


def assert_recorded_too(path: Path, service: FakeService) -> None:
    """A recording knows of the host what the service knows."""
    (reading,) = read(path)
    assert not reading.warnings
    sent = {(one.ts_s, one.reason, one.step) for one in service.stacks}
    assert {(one.ts_s, one.reason, one.step) for one in reading.records.stacks} == sent
    told = [window for _, window in sorted(service.windows.items())]
    [*_, last] = cut(reading.records, WindowPlan(first=told[0].num_steps))
    assert last.use == pytest.approx(told[-1].use, rel=0.5, abs=0.05) and last.steps.tobytes()


def assert_status_says_that_pyspy_is_missing(job: Observed) -> None:
    """One line says what to install; windows come all the same."""
    assert job.service.reports[-1].parts["stacks"] == "not_installed"
    assert sum("pip install" in line for line in job.words) == 1
    assert job.service.stacks == [] and len(job.service.windows) == 3


def assert_the_denial_is_recorded(job: Observed) -> None:
    """As an error of each dump, in the report and in one line; windows come all the same."""
    assert {dump.error for dump in job.service.stacks} == {"denied"}
    assert job.service.reports[-1].parts["stacks"] == "denied"
    assert sum("ptrace is denied" in line for line in job.words) == 1
    assert len(job.service.windows) == 3
