"""The processes that are killed: two services on one database, a host processor, the database itself."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.records.layout import Layout
from argus.evals.load.postgres import Postgres
from argus.evals.stack import clean_env

READY = re.compile(r"ready on (http://\S+:\d+)")
START_S = 120.0
STEPS_AT_ONCE, PAUSE_S = 10, 0.05
"""What a rank of the processor sends: a window every 50 ms."""

RANK_RUN = "ranks"


def wait_until(is_true: Callable[[], bool], *, what: str, timeout_s: float = START_S) -> None:
    """Raises TimeoutError that says what did not come."""
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:.0f} s")
        time.sleep(0.05)


class Child:
    """A process with a log, killed and started again with the same command."""

    def __init__(self, command: Sequence[str], *, log: Path, env: dict[str, str]) -> None:
        self._command, self._log, self._env = list(command), log, env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=clean_env(self._env))

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def end(self, number: int) -> None:
        """Send a signal and wait for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(START_S)

    def log(self) -> str:
        """All it has said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class Service(Child):
    """One replica, always on the port it got first."""

    def __init__(self, number: int, *, database: str, folder: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "argus", "serve", "--db", database, "--window-steps", "10"]
        settings = {"ARGUS_SETTLE_S": "2", "ARGUS_GRACE_S": "120", "ARGUS_FORGET_S": "1e6"}
        super().__init__([*command, "--port", str(port)], log=folder / f"service-{number}.log", env=settings)
        self.url = ""

    def start(self) -> None:
        """Start it and wait for its line."""
        said = len(self.log())
        super().start()
        assert self.process is not None
        while not (found := READY.search(self.log(), said)):
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended: {self.log()[-2000:]}")
            time.sleep(0.05)
        if not self.url:
            self.url = found[1]
            self._command[-1] = self.url.rpartition(":")[2]

    def post(self, path: str, body: bytes, *, media: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON; status 0 without an answer."""
        request = urllib.request.Request(self.url + path, data=body, headers={"content-type": media})
        return _answer(request)

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """The same of a page."""
        return _answer(urllib.request.Request(self.url + path))


def _answer(request: urllib.request.Request) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}


class Host(Child):
    """A real processor, and a rank that goes on whatever becomes of it."""

    def __init__(self, *, server: str, folder: Path) -> None:
        self._socket = folder / "socket" / "p.sock"
        self._socket.parent.mkdir(mode=0o700)
        command = [
            sys.executable,
            "-m",
            "argus",
            "processor",
            "--socket",
            str(self._socket),
            "--server",
            server,
        ]
        command += ["--spool", str(folder / "spool"), "--no-stacks", "--no-host-samples", "--ring-bytes", "0"]
        super().__init__(command, log=folder / "processor.log", env={})
        self._stopping = threading.Event()
        self._rank = threading.Thread(target=self._play)

    def begin(self) -> None:
        """Start the processor and the rank."""
        self.start()
        self._rank.start()

    def finish(self) -> None:
        """End the rank, then the processor in order."""
        self._stopping.set()
        self._rank.join()
        self.end(signal.SIGTERM)

    def _play(self) -> None:
        step = 0
        layout = Layout(run=RANK_RUN, attempt=0, rank=0, world_size=1, host="h-0", pid=4242)
        while not self._stopping.wait(PAUSE_S):
            try:
                with FakeRank(self._socket, layout) as rank:
                    while not self._stopping.wait(PAUSE_S):
                        rank.play(step, step + STEPS_AT_ONCE)
                        step += STEPS_AT_ONCE
            except OSError:
                continue  # no processor listens now; what a rank writes meanwhile is lost and counted


Killed = Service | Host | Postgres
