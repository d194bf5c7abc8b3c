"""A service with keys and two projects, for tests of who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from argus.api.companions import companions_of
from argus.api.http.app import make_app
from argus.api.http.guard import Guard
from argus.api.keys import SCOPES, Wish
from argus.api.projects import Projects
from argus.api.service import Service
from argus.collectors.records.upload import CONTENT_TYPE
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, new_service, new_store
from tests.api.kit import upload as windows_body

BOOTSTRAP = "the-key-of-the-environment"
JSON = {"content-type": "application/json"}
WINDOWS = {"content-type": CONTENT_TYPE}


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """The application, and a token for each (project, scope)."""

    app: FastAPI
    client: TestClient
    tokens: dict[tuple[str, str], str]
    clock: FakeClock

    @property
    def guard(self) -> Guard:
        guard: Guard = self.app.state.guard
        return guard

    def service(self, project: str) -> Service:
        return self.guard.projects.of(project).service

    def headers(self, scope: str, project: str = "default") -> dict[str, str]:
        """The header of a key."""
        return bearer(self.tokens[project, scope])

    def play(self, project: str, *, run: str = "job", windows: int = 3, slow: int = 2) -> None:
        """A job of a project whose rank `slow` is slow from window 1 on, sent with its ingest key, analysed."""
        key = self.headers("ingest", project)
        beats = beats_body(*(make_beat(rank, ts_s=self.clock.now_s, run=run) for rank in range(4)))
        self.send("layouts", layouts_body(run=run), {**JSON, **key})
        self.send("heartbeats", beats, {**JSON, **key})
        for window in range(windows):
            rows = [
                make_window(r, window, run=run, factor=3.0 if r == slow and window else 1.0) for r in range(4)
            ]
            self.send("windows", windows_body(*rows), {**WINDOWS, **key})
            self.clock.now_s += 1
            self.service(project).worker.turn(self.clock.now_s)

    def send(self, kind: str, body: bytes, headers: dict[str, str]) -> None:
        answer = self.client.post(f"/v1/ingest/{kind}", content=body, headers=headers)
        assert answer.status_code == 200, answer.text


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@contextmanager
def guarded(folder: Path, *, clock: FakeClock, **settings: Any) -> Iterator[Guarded]:
    """A service with the key of the environment and keys of each scope in the projects default and beta."""
    stores = []

    def opened(name: str) -> Service:
        stores.append(new_store(folder / f"{name}.sqlite"))
        return new_service(stores[-1], clock=clock, **settings)

    stores.append(new_store(folder / "default.sqlite"))
    root = new_service(stores[0], clock=clock, key=BOOTSTRAP, **settings)
    projects = Projects(root=root, open_service=opened, companions_of=companions_of)
    app = make_app(root, projects=projects)
    keyring = app.state.guard.keyring
    tokens: dict[tuple[str, str], str] = {
        (project, scope): keyring.create(Wish(project=project, name=scope, scopes=(scope,)), by="test")[0]
        for project in ("default", "beta")
        for scope in SCOPES
    }
    client = TestClient(app, raise_server_exceptions=False)
    try:
        yield Guarded(app=app, client=client, tokens=tokens, clock=clock)
    finally:
        for project in projects.opened():
            for companion in project.companions:
                companion.stop()
        for store in stores:
            store.close()
