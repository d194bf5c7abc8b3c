"""`argus serve`: the service on one address."""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from argus.api.cli.errors import CliError
from argus.api.cli.serve_checks import check_agent, check_key, check_topology, tls_of
from argus.api.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from argus.analytics.incident import Incident
    from argus.analytics.kernel_digest import Engine
    from argus.analytics.recurrence import Bout
    from argus.api.course import Analyses, Course
    from argus.api.notify.settings import NotifySettings
    from argus.api.projects import Companion, Projects
    from argus.api.remote_write import RemoteWriter
    from argus.api.service import Service

BACKLOG = 2048
"""Connections the kernel holds while the service is busy: every host of a large cluster after an outage."""

SWITCH_S = 0.0005
"""How long one thread may hold the interpreter while another wants it. A thousand hosts' requests take it back after
every read and write; at Python's 5 ms they would stand still whenever a window is analysed."""
DEFAULT_PROJECT = "default"

SHUTDOWN_S = 10
"""How long requests in flight may take to end after SIGTERM."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus serve`; each overrides argus.toml and the environment."""
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1); others need a key")
    parser.add_argument("--port", type=int, help="port to listen on (default 8321); 0 takes a free one")
    parser.add_argument("--db", help="SQLite file or postgresql:// URL (default argus.sqlite)")
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="speak TLS with this certificate and its chain, PEM"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's private key, PEM")
    parser.add_argument("--window-steps", type=int, metavar="N", help="steps per window, for every attempt")
    parser.add_argument("--engine", choices=("local", "ray"), help="where L3 computes (default local)")
    parser.add_argument(
        "--demo", action="store_true", help="serve simulated jobs instead, from a database of their own"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default argus.toml)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings = settings_of(args)
    if args.demo:
        _serve_demo(settings)
    else:
        serve(settings, analyses=product_analyses(_engine(settings)), notify=notify_of(args))
    return 0


def _serve_demo(settings: Settings) -> None:
    """Serve jobs that were simulated just now, at the time they stand at. Raises CliError."""
    from argus.api.cli.demo_jobs import demo_jobs

    with demo_jobs(settings) as made:
        serve(made.settings, analyses=product_analyses(), clock=made.clock)


def product_analyses(engine: Engine | None = None) -> Analyses:
    """The product's own analysis and wording."""
    from functools import partial

    from argus.agent.card import render
    from argus.agent.triage import diagnose
    from argus.analytics.attempt import AttemptState, advance
    from argus.api.course import Analyses, Following

    def restore(state: AttemptState, incidents: Sequence[Incident], bouts: Sequence[Bout]) -> AttemptState:
        return replace(state, incidents=tuple(incidents), bouts=tuple(bouts))

    look = partial(advance, engine=engine)

    def begin(run: str, attempt: int) -> Course:
        return Following(state=AttemptState.start(run, attempt), advance=look, restore=restore)

    return Analyses(begin=begin, diagnose=diagnose, render=render)


def _engine(settings: Settings) -> Engine:
    """Where L3 computes. Raises CliError."""
    from argus.analytics.engine_local import LocalEngine
    from argus.analytics.engine_ray import RayEngine

    if settings.engine == "local":
        return LocalEngine(workers=os.cpu_count() or 1)
    if settings.engine != "ray":
        raise CliError(f"engine must be local or ray, got {settings.engine!r}")
    return RayEngine(address=settings.ray_address)


def notify_of(args: argparse.Namespace) -> NotifySettings:
    """What is set of the notifiers in the file and in the environment. Raises CliError."""
    from argus.api.notify.notifier import NotifierError
    from argus.api.notify.settings import load_notify

    try:
        return load_notify(env=os.environ, path=args.config)
    except NotifierError as error:
        raise CliError(str(error)) from None


def serve(
    settings: Settings,
    *,
    analyses: Analyses,
    notify: NotifySettings | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Serve with the given analysis until SIGTERM or SIGINT. Raises CliError."""
    from argus.api.masking import mask_logs

    check_key(settings)
    tls = tls_of(settings)
    check_agent(settings)
    check_topology(settings)
    with _listen(settings) as listener, _claim(settings.db):
        unmask = mask_logs(settings, more=notify.secrets if notify else ())
        try:
            service = _open(settings, analyses=analyses, clock=clock)
            projects = _projects(service, analyses=analyses, notify=notify)
            _serve(service, listener, projects=projects, tls=tls)
        finally:
            unmask()


def settings_of(args: argparse.Namespace) -> Settings:
    """Settings from file, environment and command line. Raises CliError."""
    names = ("host", "port", "db", "window_steps", "engine", "tls_cert", "tls_key")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    try:
        settings, warnings = load_settings(env=os.environ, path=args.config, overrides=given)
    except SettingsError as error:
        raise CliError(str(error)) from None
    for warning in warnings:
        print(f"argus serve: {warning}", file=sys.stderr)
    return settings


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CliError(
            f"cannot listen on {settings.host} port {settings.port} ({reason}); choose another with --port",
            code=1,
        ) from None


@contextmanager
def _claim(db: str) -> Iterator[None]:
    """Keep a second service off the same SQLite file: each would analyse every window."""
    if "://" in db:
        yield
        return
    try:
        file = Path(f"{db}.lock").open("w")  # noqa: SIM115 - closed below, when the service has ended
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


def _open(settings: Settings, *, analyses: Analyses, clock: Callable[[], float]) -> Service:
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.engine import StoreError

    try:
        return _service(settings, analyses=analyses, clock=clock)
    except (StoreError, SQLAlchemyError) as error:
        raise CliError(f"cannot open the database: {str(error).splitlines()[0]}", code=1) from None


def _service(settings: Settings, *, analyses: Analyses, clock: Callable[[], float]) -> Service:
    from argus.analytics.store.engine import open_store
    from argus.api.migrate import upgrade
    from argus.api.service import make_service

    store = open_store(settings.db)
    upgrade(store)
    return make_service(settings=settings, store=store, analyses=analyses, clock=clock)


def _projects(service: Service, *, analyses: Analyses, notify: NotifySettings | None) -> Projects:
    """The projects of a service, each with its own database beside the default one's. Raises CliError."""
    from argus.api.companions import companions_of
    from argus.api.http.app import make_auditor
    from argus.api.notify.notifier import NotifierError
    from argus.api.notify.settings import NO_NOTIFIERS
    from argus.api.projects import Project, Projects, database_of
    from argus.api.slack.switchboard import Switchboard

    settings, auditor, switchboard = service.settings, make_auditor(service), Switchboard()

    def beside(project: Project) -> list[Companion]:
        writer = remote_writer(project.service, project=project.name)
        try:
            others = companions_of(
                project, notify=notify or NO_NOTIFIERS, auditor=auditor, switchboard=switchboard
            )
        except NotifierError as error:
            raise CliError(str(error)) from None
        return [*others, *([writer] if writer is not None else [])]

    def opened(name: str) -> Service:
        db = database_of(settings.db, name, root=service.store)
        return _service(replace(settings, db=db), analyses=analyses, clock=service.clock)

    return Projects(root=service, open_service=opened, companions_of=beside)


def _serve(service: Service, listener: socket.socket, *, projects: Projects, tls: Mapping[str, str]) -> None:
    import uvicorn

    from argus.api.http.app import make_app
    from argus.api.http.connections import HEAD_BYTES, KEEP_ALIVE_S, listening, protocol_of, room_for

    settings = service.settings
    shown = url_of(listener, scheme="https" if tls else "http")

    def ready() -> None:
        print(f"argus serve: ready on {shown}, database {_shown(settings.db)}", flush=True)

    listening(listener)
    config = uvicorn.Config(
        make_app(service, on_ready=ready, projects=projects),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=HEAD_BYTES,
        http=protocol_of(max_connections=room_for(settings.max_connections)),
        ws="none",
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        **tls,  # type: ignore[arg-type]
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            for project in projects.opened():
                project.service.board.close()  # hosts that wait for orders must not hold up the end
            super().handle_exit(sig, frame)

    sys.setswitchinterval(SWITCH_S)
    # uvicorn raises the signal again once it has shut down; to end in order is no failure.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    Server(config).run(sockets=[listener])


def url_of(listener: socket.socket, *, scheme: str) -> str:
    """Where a listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def remote_writer(service: Service, *, project: str = DEFAULT_PROJECT) -> RemoteWriter | None:
    """Pushes the metrics of a project if the settings say where to. Raises CliError."""
    from argus.api.remote_write import RemoteWriter
    from argus.collectors.host.client import parse_server

    url, token = service.settings.remote_write_url, service.settings.remote_write_token
    if not url:
        return None
    try:
        post = parse_server(url, key=token)
    except ValueError as error:
        raise CliError(f"remote_write_url: {error}") from None
    metrics = service.metrics
    return RemoteWriter(
        post,
        metrics.registry,
        sent=metrics.pushed,
        clock=time.time,
        rng=random.Random(),
        labels={} if project == DEFAULT_PROJECT else {"project": project},
    )


def _shown(db: str) -> str:
    """The database without a password."""
    if "://" not in db:
        return db
    from sqlalchemy.engine import make_url

    return make_url(db).render_as_string(hide_password=True)
