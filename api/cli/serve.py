"""`argus serve`: the service on one address."""

from __future__ import annotations

import argparse
import fcntl
import ipaddress
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from argus.api.cli.errors import CliError
from argus.api.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from argus.analytics.incident import Incident
    from argus.analytics.kernel_digest import Engine
    from argus.analytics.recurrence import Bout
    from argus.api.course import Analyses, Course
    from argus.api.remote_write import RemoteWriter
    from argus.api.service import Service

BACKLOG = 2048
"""Connections the kernel holds while the service is busy: every host of a large cluster after an outage."""

SWITCH_S = 0.0005
"""How long one thread may hold the interpreter while another wants it. A thousand hosts' requests take it back after
every read and write; at Python's 5 ms they would stand still whenever a window is analysed."""

SHUTDOWN_S = 10
"""How long requests in flight may take to end after SIGTERM."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus serve`; each overrides argus.toml and the environment."""
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1); others need ARGUS_KEY")
    parser.add_argument("--port", type=int, help="port to listen on (default 8321); 0 takes a free one")
    parser.add_argument("--db", help="SQLite file or postgresql:// URL (default argus.sqlite)")
    parser.add_argument("--window-steps", type=int, metavar="N", help="steps per window, for every attempt")
    parser.add_argument("--engine", choices=("local", "ray"), help="where L3 computes (default local)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default argus.toml)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings = settings_of(args)
    serve(settings, analyses=product_analyses(_engine(settings)))
    return 0


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


def serve(settings: Settings, *, analyses: Analyses) -> None:
    """Serve with the given analysis until SIGTERM or SIGINT. Raises CliError."""
    if not settings.key and not _is_loopback(settings.host):
        raise CliError(
            f"--host {settings.host} can be reached from other machines: set ARGUS_KEY to the key they must bear"
        )
    with _listen(settings) as listener, _claim(settings.db):
        _serve(_open(settings, analyses=analyses), listener, settings=settings)


def settings_of(args: argparse.Namespace) -> Settings:
    """Settings from file, environment and command line. Raises CliError."""
    names = ("host", "port", "db", "window_steps", "engine")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    try:
        settings, warnings = load_settings(env=os.environ, path=args.config, overrides=given)
    except SettingsError as error:
        raise CliError(str(error)) from None
    for warning in warnings:
        print(f"argus serve: {warning}", file=sys.stderr)
    return settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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


def _open(settings: Settings, *, analyses: Analyses) -> Service:
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.engine import StoreError, open_store
    from argus.api.migrate import upgrade
    from argus.api.service import make_service

    try:
        store = open_store(settings.db)
        upgrade(store)
    except (StoreError, SQLAlchemyError) as error:
        raise CliError(f"cannot open the database: {str(error).splitlines()[0]}", code=1) from None
    return make_service(settings=settings, store=store, analyses=analyses, clock=time.time)


def _serve(service: Service, listener: socket.socket, *, settings: Settings) -> None:
    import uvicorn

    from argus.api.http.app import make_app

    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

    def ready() -> None:
        print(f"argus serve: ready on http://{shown}:{port}, database {_shown(settings.db)}", flush=True)

    config = uvicorn.Config(
        make_app(service, on_ready=ready),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        server_header=False,
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            service.board.close()  # hosts that wait for orders must not hold up the end
            super().handle_exit(sig, frame)

    writer = remote_writer(service)
    sys.setswitchinterval(SWITCH_S)
    # uvicorn raises the signal again once it has shut down; to end in order is no failure.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    if writer is not None:
        writer.start()
    Server(config).run(sockets=[listener])
    if writer is not None:
        writer.stop()


def remote_writer(service: Service) -> RemoteWriter | None:
    """Pushes the metrics if the settings say where to. Raises CliError."""
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
    return RemoteWriter(post, metrics.registry, sent=metrics.pushed, clock=time.time, rng=random.Random())


def _shown(db: str) -> str:
    """The database without a password."""
    if "://" not in db:
        return db
    from sqlalchemy.engine import make_url

    return make_url(db).render_as_string(hide_password=True)
