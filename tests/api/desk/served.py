"""A service that has lived through a job with a slow rank, its application and its desk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from argus.api.cli.serve import product_analyses
from argus.api.companions import companions_of
from argus.api.desk import Desk
from argus.api.http.app import make_app
from argus.api.http.desk import desk_at
from argus.api.notify.settings import NO_NOTIFIERS, NotifySettings
from argus.api.projects import Companion, Project, Projects
from argus.api.service import Service
from argus.evals.simulator.job import Fault, Job
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import live

JOB = Job(run="job", ranks=4, steps=100)
FAULT = Fault(kind="compute", ranks=(2,), start_step=50, severity=1.8)


@dataclass(frozen=True)
class Lived:
    """The service, its application (not started: the test turns what it needs) and its desk."""

    service: Service
    clock: FakeClock
    app: FastAPI
    desk: Desk

    @property
    def client(self) -> TestClient:
        """A client without the application's life."""
        return TestClient(self.app, raise_server_exceptions=False, base_url="http://localhost")

    @property
    def incident(self) -> str:
        """The incident's id."""
        (item,) = self.client.get("/v1/incidents").json()["items"]
        return str(item["id"])


@contextmanager
def lived(folder: Path, *, notify: NotifySettings = NO_NOTIFIERS, **settings: Any) -> Iterator[Lived]:
    """A service on a fresh database, closed afterwards.."""
    store, clock = new_store(folder / "a.sqlite"), FakeClock(JOB.start_s)
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10, **settings)
    live(service, clock, JOB, [FAULT])

    def beside(project: Project) -> list[Companion]:
        return list(companions_of(project, notify=notify))

    projects = Projects(root=service, companions_of=beside)
    app = make_app(service, projects=projects)
    desk = desk_at(projects.default)
    try:
        yield Lived(service=service, clock=clock, app=app, desk=desk)
    finally:
        desk.stop()
        store.close()


@contextmanager
def app_over_http(app: FastAPI) -> Iterator[str]:
    """The application's URL while it is served on loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
