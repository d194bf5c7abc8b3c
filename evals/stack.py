"""The product's own processes around a real job: start them with default settings, stop them by pid."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

READY = re.compile(r"http://127\.0\.0\.1:(\d+)")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
WINDOW_STEPS = 10
"""The service would choose longer ones, whatever the job: minutes until a baseline."""

TRAIN = Path(__file__).parent / "workloads" / "train.py"


class StackError(RuntimeError):
    """A process of the stack did not start or died; the message holds the end of its log."""


def clean_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without any ARGUS_* variable, so that defaults count, plus `extra`."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    return env | {"OMP_NUM_THREADS": "1"} | dict(extra or {})


def service_command(directory: Path, *, window_steps: int, port: int = 0) -> list[str]:
    """`argus serve` with its default settings but for where it stores and the window's length."""
    return [
        *(sys.executable, "-m", "argus", "serve", "--port", str(port)),
        *("--db", str(directory / "argus.sqlite"), "--window-steps", str(window_steps)),
    ]


def torchrun(ranks: int) -> list[str]:
    """What starts a script on `ranks` ranks of this machine."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)),
        *("--master-addr", "127.0.0.1", "--master-port", "0", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", "127.0.0.1:0"),
    ]


def job_command(
    directory: Path, *, run: str, server: str, launch: Sequence[str], record: Path | None = None
) -> list[str]:
    """`argus run` before a launcher and its script; the processor it starts has its default settings."""
    return [
        *(sys.executable, "-m", "argus", "run", "--run", run, "--server", server),
        *("--socket", str(directory / "socket" / "processor.sock")),
        *(("--record", str(record)) if record else ()),
        *("--", *launch),
    ]


@dataclass
class Stack:
    """One service and one job under observation in `directory`; use as a context manager.

    `launcher` starts the script on the ranks, torchrun if it is empty; `record` is where a recording goes beside the
    service, if it is wanted.
    """

    directory: Path
    run: str
    ranks: int
    script: Sequence[str]
    window_steps: int = WINDOW_STEPS
    launcher: Sequence[str] = ()
    record: Path | None = None
    url: str = ""
    service: subprocess.Popen[bytes] | None = None
    job: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start_service()
            self.start_job()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_service(self) -> None:
        """Start `argus serve`, where it listened before if it did, and wait until it says so."""
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        command = service_command(self.directory, window_steps=self.window_steps, port=port)
        written = len(self.log("serve"))
        self.service = self._spawn(command, "serve")
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if found := READY.search(self.log("serve"), written):
                self.url = found.group(0)
                return
            if self.service.poll() is not None:
                break
            time.sleep(0.1)
        raise StackError(f"the service did not start:\n{self.log('serve')[-2000:]}")

    def start_job(self) -> None:
        """Start the training job under `argus run`."""
        launch = [*(self.launcher or torchrun(self.ranks)), *self.script]
        command = job_command(
            self.directory, run=self.run, server=self.url, launch=launch, record=self.record
        )
        self.job = self._spawn(command, "job")

    def get(self, path: str) -> Any:
        """JSON of a route of the service."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def rank_pid(self, rank: int) -> int:
        """Process id of a rank; StackError if it does not run."""
        assert self.job is not None
        for process in psutil.Process(self.job.pid).children(recursive=True):
            try:
                if process.environ().get("RANK") == str(rank):
                    return process.pid
            except psutil.Error:  # ended or not ours to read: not the rank we look for
                continue
        raise StackError(f"rank {rank} does not run:\n{self.log('job')[-2000:]}")

    def log(self, name: str) -> str:
        """What a process wrote so far."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def check(self) -> None:
        """StackError if the service or the job died."""
        for name, process in (("serve", self.service), ("job", self.job)):
            if process is not None and process.poll() not in (None, 0):
                raise StackError(f"{name} ended with code {process.returncode}:\n{self.log(name)[-2000:]}")

    def stop_job(self) -> None:
        """Let training end in order; kill what does not."""
        (self.directory / "faults" / "stop").touch()
        if self.job is not None:
            _end(self.job, timeout_s=STOP_TIMEOUT_S)
        self._end_processor()

    def close(self) -> None:
        """Stop everything this stack started."""
        self.stop_job()
        if self.service is not None:
            self.service.send_signal(signal.SIGTERM) if self.service.poll() is None else None
            _end(self.service, timeout_s=STOP_TIMEOUT_S)

    def processor(self) -> psutil.Process | None:
        """The host processor that `argus run` started, None if it is not there."""
        socket = str(self.directory / "socket" / "processor.sock")
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "processor" in words and socket in words:
                return process
        return None

    def _end_processor(self) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while (process := self.processor()) and time.monotonic() < deadline:
            time.sleep(0.2)
        if process is not None:
            process.kill()

    def _spawn(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        (self.directory / "faults").mkdir(exist_ok=True)
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=clean_env(), cwd=self.directory, start_new_session=True
            )


def _end(process: subprocess.Popen[bytes], *, timeout_s: float) -> None:
    """Wait, then kill the process and its children."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        children = psutil.Process(process.pid).children(recursive=True)
        for child in children:
            child.kill()
        process.kill()
        process.wait()
