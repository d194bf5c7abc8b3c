"""A service in a process of its own, started, asked and killed by tests."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argus.collectors.records.upload import CONTENT_TYPE

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"ready on (https?://\S+:\d+)")
PATIENCE_S = 60.0
FAKE = ("-m", "tests.api.serve_fake")


def environment(**extra: str) -> dict[str, str]:
    """This environment without settings of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARGUS_")}
    return {**kept, **extra}


def wait_for(is_true: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    """Until a claim holds; AssertionError if it does not in time."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass(frozen=True)
class Running:
    """A service that said it is ready."""

    process: subprocess.Popen[str]
    url: str
    key: str = ""

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an ingest request; status 0 if the service is gone."""
        media = CONTENT_TYPE if path.endswith("windows") else "application/json"
        request = urllib.request.Request(
            self.url + path, data=body, headers={"content-type": media, **self._headers()}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except (OSError, http.client.HTTPException):
            return 0, {}

    def get(self, path: str) -> Any:
        """JSON of a page."""
        request = urllib.request.Request(self.url + path, headers=self._headers())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.close()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self.close()
        return code

    def close(self) -> None:
        """Reap the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def start(db: Path | str, *options: str, module: Sequence[str] = FAKE, key: str = "", **env: str) -> Running:
    """Start a service on a free port and wait for its line."""
    command = [sys.executable, *module, "--port", "0", "--db", str(db), *options]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = READY.search(line)
    if found is None:
        _, errors = process.communicate()
        raise AssertionError(f"not ready: {line!r} {errors}")
    return Running(process, found[1], key)
