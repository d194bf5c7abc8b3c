"""What `argus serve` serves from: the database, claimed, healed, migrated, and the projects in it."""

from __future__ import annotations

import fcntl
import logging
import random
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from argus.api.cli.errors import CliError, cannot_open
from argus.api.masking import mask
from argus.api.settings import Settings

if TYPE_CHECKING:
    from argus.api.course import Analyses
    from argus.api.notify.settings import NotifySettings
    from argus.api.otlp import OtlpPusher
    from argus.api.projects import Companion, Project, Projects
    from argus.api.remote_write import RemoteWriter
    from argus.api.service import Service

DEFAULT_PROJECT = "default"


@contextmanager
def claimed(db: str) -> Iterator[None]:
    """Keep a second service off the same SQLite file: each would analyse every window. Raises CliError."""
    path = _file_of(db)
    if path is None:
        yield
        return
    try:
        file = Path(f"{path}.lock").open("w")  # noqa: SIM115 - closed below, when the service has ended
    except OSError as error:
        raise CliError(f"cannot open the database {db}: {error.strerror}", code=1) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CliError(
                f"another argus serve uses the database {db}; choose another with --db", code=1
            ) from None
        yield


def _file_of(db: str) -> Path | None:
    """The SQLite file of a database, whether it is named by path, by URL or by a link; None of any other. CliError."""
    from argus.analytics.store.engine import StoreError, open_store

    try:
        path = open_store(db).path
    except StoreError as error:
        raise cannot_open(error) from None
    return None if path is None else path.resolve()


def opened(settings: Settings, *, analyses: Analyses, clock: Callable[[], float]) -> Service:
    """The service on its database; a damaged SQLite file is replaced first. Raises CliError."""
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.engine import StoreError
    from argus.api.healing import CannotHeal

    try:
        return _service(settings, analyses=analyses, clock=clock)
    except (CannotHeal, OSError, sqlite3.Error, StoreError, SQLAlchemyError) as error:
        raise cannot_open(error) from None


def _service(settings: Settings, *, analyses: Analyses, clock: Callable[[], float]) -> Service:
    from argus.analytics.store.engine import open_store
    from argus.api.healing import heal_at_start
    from argus.api.migrate import upgrade
    from argus.api.service import make_service

    store = open_store(settings.db)
    repair = heal_at_start(store.path, now_s=clock()) if store.path is not None else None
    upgrade(store)
    return make_service(settings=settings, store=store, analyses=analyses, clock=clock, repair=repair)


def projects_of(service: Service, *, analyses: Analyses, notify: NotifySettings | None) -> Projects:
    """The projects of a service, each with its own database beside the default one's. Raises CliError."""
    from argus.api.companions import companions_of
    from argus.api.healing import CannotHeal
    from argus.api.http.app import make_auditor
    from argus.api.notify.notifier import NotifierError
    from argus.api.notify.settings import NO_NOTIFIERS
    from argus.api.projects import ProjectError, Projects, database_of
    from argus.api.slack.switchboard import Switchboard

    settings, auditor, switchboard = service.settings, make_auditor(service), Switchboard()

    def beside(project: Project) -> list[Companion]:
        pushers = (
            remote_writer(project.service, project=project.name),
            otlp_pusher(project.service, project.name),
        )
        try:
            others = companions_of(
                project, notify=notify or NO_NOTIFIERS, auditor=auditor, switchboard=switchboard
            )
        except NotifierError as error:
            raise CliError(str(error)) from None
        return [*others, *(pusher for pusher in pushers if pusher is not None)]

    def another(name: str) -> Service:
        db = database_of(settings.db, name, root=service.store)
        try:
            return _service(replace(settings, db=db), analyses=analyses, clock=service.clock)
        except CannotHeal as error:
            raise ProjectError(str(error)) from None

    return Projects(root=service, open_service=another, companions_of=beside)


def remote_writer(service: Service, *, project: str = DEFAULT_PROJECT) -> RemoteWriter | None:
    """Pushes the metrics of a project if the settings say where to. Raises CliError."""
    from argus.api.remote_write import RemoteWriter, receiver_at

    url, token = service.settings.remote_write_url, service.settings.remote_write_token
    if not url:
        return None
    try:
        post = receiver_at(url, token=token)
    except ValueError as error:
        raise CliError(f"remote_write_url: {error}") from None
    metrics = service.metrics
    return RemoteWriter(
        post,
        metrics.registry,
        sent=metrics.pushed,
        clock=time.time,
        rng=random.Random(),
        labels={"job": "argus", "instance": instance_of(service.settings)}
        | _project_label(project, "project"),
    )


def otlp_pusher(service: Service, project: str = DEFAULT_PROJECT) -> OtlpPusher | None:
    """The same by OTLP/HTTP; headers and certificates are those of OTEL_EXPORTER_OTLP_*. Raises CliError."""
    url = service.settings.otlp_url
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise CliError(f"otlp_url must be a URL like http://HOST:4318/v1/metrics, got {url!a:.80}")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    from argus.api.otlp import OtlpPusher, resource_of

    # A line for each try again would be ten a minute while the receiver is away; that it failed is one.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    who = {"service.name": "argus", "service.instance.id": instance_of(service.settings)}
    return OtlpPusher(
        OTLPMetricExporter(endpoint=url),
        service.metrics.registry,
        resource=resource_of(who | _project_label(project, "argus.project")),
        sent=service.metrics.otlp,
        clock=time.time,
    )


def instance_of(settings: Settings) -> str:
    """What tells the numbers of this service from those of its replicas where it pushes them itself."""
    return f"{socket.gethostname()}:{settings.port}"


def _project_label(project: str, name: str) -> dict[str, str]:
    return {} if project == DEFAULT_PROJECT else {name: project}


def shown(db: str) -> str:
    """The database without a password."""
    if "://" not in db:
        return db
    from sqlalchemy.engine import make_url

    return mask(make_url(db).render_as_string(hide_password=True))
