"""A PostgreSQL server of our own on a unix socket, started, killed and started again."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import psutil

USER = "postgres"
START_S = 60.0


class NoPostgres(RuntimeError):
    """There is none on this machine; the message says what to install."""


class Postgres:
    """Its data lies in `folder`, which the user `postgres` must be able to reach when we are root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = USER if os.getuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self._user:
            shutil.chown(folder, self._user)
        self._run(tool("initdb"), "-D", str(folder / "db"), "-U", USER, "-A", "trust")
        self.start()

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"postgresql://{USER}@/postgres?host={self._folder}"

    def start(self) -> None:
        """Start, and wait until it takes connections; after a kill it goes through its log first."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    tool("postgres"),
                    "-D",
                    str(self._folder / "db"),
                    "-k",
                    str(self._folder),
                    "-c",
                    "listen_addresses=",
                ],
                user=self._user,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        deadline = time.monotonic() + START_S
        ready = [tool("pg_isready"), "-q", "-h", str(self._folder), "-U", USER]
        while subprocess.run(ready, check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9 of the server and every process of it."""
        assert self._process is not None
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for process in family:
            with_signal(process)
        psutil.wait_procs(family, timeout=START_S)
        self._process.wait()

    def close(self) -> None:
        """End it for good."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _run(self, *command: str) -> None:
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)


def with_signal(process: psutil.Process) -> None:
    """kill -9 of a process that may be gone already."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def tool(name: str) -> str:
    """The path of one of its programs. Raises NoPostgres."""
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"))), "")
    if not found:
        raise NoPostgres("PostgreSQL is not installed: apt-get install postgresql")
    return found


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A server as long as the block lasts."""
    folder.mkdir()
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.close()
