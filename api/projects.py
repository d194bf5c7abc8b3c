"""The projects of a service: each a service of its own, with its own database, analysis and metrics.

No query filters by project, so none can forget to: what a key can reach is one of these.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import text
from sqlalchemy.engine import make_url

from argus.analytics.store.engine import Store
from argus.analytics.store.projects import DEFAULT, project_names
from argus.api.keys import PROJECT
from argus.api.service import Service
from argus.api.toolbox import Toolbox, toolbox_of

LOG = logging.getLogger(__name__)

MAX_PROJECTS = 64
"""Each has an analysis thread and database connections: a service is for teams, not for customers."""


class ProjectError(Exception):
    """A project that cannot be served; the message says why."""


class Companion(Protocol):
    """Something that works beside a project's analysis."""

    def start(self) -> None:
        """Begin; called once."""

    def stop(self) -> None:
        """End, and wait for the end."""


@dataclass(kw_only=True)
class Project:
    """One project while it is served."""

    name: str
    service: Service
    toolbox: Toolbox
    companions: tuple[Companion, ...] = ()

    def start(self) -> None:
        """Begin the analysis and what works beside it."""
        self.service.worker.start()
        for companion in self.companions:
            companion.start()

    def stop(self) -> None:
        """End it in the other order and let go of the database."""
        for companion in reversed(self.companions):
            companion.stop()
        self.service.stop()


OpenService = Callable[[str], Service]
CompanionsOf = Callable[[Project], Sequence[Companion]]


def only_default(name: str) -> Service:
    """Opens no project beside the default one. Raises ProjectError."""
    raise ProjectError(f"project {name!r} is not served here")


def no_companions(_project: Project) -> Sequence[Companion]:
    """Nothing works beside the analysis."""
    return ()


@dataclass(kw_only=True)
class Projects:
    """The default project and those opened so far; another one is opened when a key of it first asks."""

    root: Service
    open_service: OpenService = only_default
    companions_of: CompanionsOf = no_companions
    _opened: dict[str, Project] = field(default_factory=dict, repr=False)
    _is_running: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._opened[DEFAULT] = self._made(DEFAULT, self.root)

    @property
    def default(self) -> Project:
        """The project of today's database."""
        return self._opened[DEFAULT]

    def opened(self) -> list[Project]:
        """Those that are served now, the default one first."""
        return list(self._opened.values())

    def get(self, name: str) -> Project | None:
        """A project that is served already."""
        return self._opened.get(name)

    def of(self, name: str) -> Project:
        """A project, opened if it is not yet. Raises ProjectError, and what opening a database may raise."""
        with self._lock:
            found = self._opened.get(name)
            if found is not None:
                return found
            if len(self._opened) >= MAX_PROJECTS:
                raise ProjectError(f"this service has {MAX_PROJECTS} projects, the most it serves")
            made = self._made(name, self.open_service(name))
            if self._is_running:
                made.start()
            self._opened[name] = made
            return made

    def start(self) -> None:
        """Begin the analysis of every project there is."""
        with self.root.store.read() as connection:
            names = project_names(connection)
        for name in names[1:]:
            try:
                self.of(name)
            except Exception as error:  # noqa: BLE001 - one project's database must not keep the others down
                LOG.error("project %s cannot be opened: %s", name, error)
        with self._lock:
            self._is_running = True
            for project in self._opened.values():
                project.start()

    def stop(self) -> None:
        """End every analysis."""
        with self._lock:
            for project in reversed(self.opened()):
                project.stop()

    def _made(self, name: str, service: Service) -> Project:
        project = Project(name=name, service=service, toolbox=toolbox_of(service))
        project.companions = tuple(self.companions_of(project))
        return project


def database_of(db: str, name: str, *, root: Store) -> str:
    """Where a project's rows lie: a file beside the default one's, or a schema of the same database.

    Makes the folder or the schema.
    """
    assert PROJECT.fullmatch(name), name
    if root.engine.dialect.name == "sqlite":
        path = Path((make_url(db).database or "") if "://" in db else db)
        folder = path.with_name(f"{path.name}.projects")
        folder.mkdir(exist_ok=True)
        return str(folder / f"{name}.sqlite")
    schema = f"argus_{name}"
    with root.write() as connection:
        connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    url = make_url(db)
    options = f"{url.query.get('options', '')} -csearch_path={schema}".strip()
    return url.update_query_dict({"options": options}).render_as_string(hide_password=False)
