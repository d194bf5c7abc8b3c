"""`argus serve`: the service on one address."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path, word
from argus.api.cli.serve_checks import check_agent, check_callbacks, check_key, check_topology, tls_of
from argus.api.cli.serve_http import listen, serve_http
from argus.api.cli.serve_log import logging_lines
from argus.api.cli.serve_store import claimed, opened, projects_of
from argus.api.settings import Settings, SettingsError
from argus.api.settings_sources import load_settings

if TYPE_CHECKING:
    from argus.analytics.eras import Eras
    from argus.analytics.incident import Incident
    from argus.analytics.kernels.digest import Engine
    from argus.analytics.recurrence import Bout
    from argus.api.course import Analyses, Course
    from argus.api.notify.settings import NotifySettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus serve`; each overrides argus.toml and the environment."""
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1); others need a key")
    parser.add_argument("--port", type=int, help="port to listen on (default 8321); 0 takes a free one")
    parser.add_argument("--db", type=word, help="SQLite file or postgresql:// URL (default argus.sqlite)")
    parser.add_argument(
        "--tls-cert", type=word, metavar="FILE", help="speak TLS with this certificate and its chain, PEM"
    )
    parser.add_argument("--tls-key", type=word, metavar="FILE", help="the certificate's private key, PEM")
    parser.add_argument("--window-steps", type=int, metavar="N", help="steps per window, for every attempt")
    parser.add_argument("--engine", choices=("local", "ray"), help="where L3 computes (default local)")
    parser.add_argument(
        "--demo", action="store_true", help="serve simulated jobs instead, from a database of their own"
    )
    parser.add_argument("--config", type=path, metavar="FILE", help="settings file (default argus.toml)")


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

    def restore(
        state: AttemptState,
        incidents: Sequence[Incident],
        bouts: Sequence[Bout],
        eras: Eras | None = None,
    ) -> AttemptState:
        known = state.eras if eras is None else eras
        return replace(state, incidents=tuple(incidents), bouts=tuple(bouts), eras=known)

    look = partial(advance, engine=engine)

    def begin(run: str, attempt: int, *, launch: int = 0) -> Course:
        return Following(state=AttemptState.start(run, attempt, launch=launch), advance=look, restore=restore)

    return Analyses(begin=begin, diagnose=diagnose, render=render)


def _engine(settings: Settings) -> Engine:
    """Where L3 computes. Raises CliError."""
    from argus.analytics.kernels.engine_local import LocalEngine
    from argus.analytics.kernels.engine_ray import RayEngine

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
    check_callbacks(settings)
    check_topology(settings)
    with logging_lines(), listen(settings) as listener, claimed(settings.db):
        unmask = mask_logs(settings, more=notify.secrets if notify else ())
        try:
            service = opened(settings, analyses=analyses, clock=clock)
            projects = projects_of(service, analyses=analyses, notify=notify)
            serve_http(service, listener, projects=projects, tls=tls)
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
