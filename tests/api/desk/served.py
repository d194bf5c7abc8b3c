"""A service that has lived through a job with a slow rank, its application and its desk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from sqlite3 import connect
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from argus.analytics.store import queries
from argus.analytics.store.incidents import save_incident
from argus.api.cli.serve import product_analyses
from argus.api.companions import companions_of
from argus.api.desk import Desk
from argus.api.http.app import make_app
from argus.api.http.desk import desk_at
from argus.api.notify.matter import DEFAULT
from argus.api.notify.settings import NO_NOTIFIERS, NotifySettings
from argus.api.projects import Companion, Project, Projects
from argus.api.service import Service
from argus.api.slack.switchboard import Switchboard
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

    def reopen(self, *, severity: str = "critical") -> None:
        """The job has ended meanwhile: have its incident open again."""
        with self.service.store.write() as connection:
            found = queries.whole_incident(connection, self.incident)
            assert found is not None
            again = replace(found, status="open", severity=severity, end_step=None, ended="")
            save_incident(connection, 1, again, now_s=self.clock.now_s)

    @property
    def incident(self) -> str:
        """The incident's id."""
        (item,) = self.client.get("/v1/incidents").json()["items"]
        return str(item["id"])


@cache
def _lived() -> tuple[bytes, float]:
    """The database of a service that has lived through the job, and the time then."""
    with TemporaryDirectory() as folder:
        path, clock = Path(folder) / "a.sqlite", FakeClock(JOB.start_s)
        store = new_store(path)
        live(
            new_service(store, clock=clock, analyses=product_analyses(), window_steps=10), clock, JOB, [FAULT]
        )
        store.close()
        with connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return path.read_bytes(), clock.now_s


@contextmanager
def lived(
    folder: Path,
    *,
    notify: NotifySettings = NO_NOTIFIERS,
    switchboard: Switchboard | None = None,
    project: str = DEFAULT,
    **settings: Any,
) -> Iterator[Lived]:
    """A service on a fresh database, closed afterwards; its notices say they are of `project`."""
    folder.mkdir(exist_ok=True)
    path, (kept, now_s) = folder / "a.sqlite", _lived()
    path.write_bytes(kept)
    store, clock = new_store(path), FakeClock(now_s)
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10, **settings)

    def beside(served: Project) -> list[Companion]:
        named = replace(served, name=project)
        return list(companions_of(named, notify=notify, switchboard=switchboard))

    projects = Projects(root=service, companions_of=beside)
    app = make_app(service, projects=projects)
    desk = desk_at(projects.default)
    try:
        yield Lived(service=service, clock=clock, app=app, desk=desk)
    finally:
        desk.stop()
        store.close()
