"""`argus doctor`: whether the model's endpoint can do what the agent needs, and what to change."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.api.settings import SettingsError
from argus.api.settings_sources import load_settings
from argus.collectors.records.text import tame

if TYPE_CHECKING:
    from argus.agent.model.doctor import Check
    from argus.agent.model.endpoint import Endpoint

MAX_LINE = 200

FIT, IN_PART, UNFIT = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which endpoint: that of the settings unless told."""
    parser.add_argument("--url", help="base URL of the endpoint (default: ARGUS_MODEL_URL)")
    parser.add_argument("--model", help="the model's name (default: ARGUS_MODEL, else the first listed)")
    parser.add_argument("--profile", help="kind of server (default: ARGUS_MODEL_PROFILE)")
    parser.add_argument("--config", type=path, metavar="FILE", help="settings file (default argus.toml)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """Probe and print; 0 fit, 1 fit with what is said, 2 not fit."""
    from argus.agent.model.doctor import probe

    endpoint = _endpoint(args)
    checks = asyncio.run(probe(endpoint))
    if args.json:
        rows = [check.to_json() for check in checks]
        print(json.dumps({"url": endpoint.shown_url, "profile": endpoint.profile.name, "checks": rows}))
    else:
        print("\n".join(_lines(endpoint, checks)))
    return exit_code(checks)


def exit_code(checks: Sequence[Check]) -> int:
    """Worst of the checks."""
    if any(not check.ok and check.is_needed for check in checks):
        return UNFIT
    return IN_PART if any(check.fix for check in checks) else FIT


def _endpoint(args: argparse.Namespace) -> Endpoint:
    from argus.api.agent import endpoint_of

    given = {"model_url": args.url, "model": args.model, "model_profile": args.profile}
    overrides = {name: value for name, value in given.items() if value is not None}
    try:
        settings, _ = load_settings(env=os.environ, path=args.config, overrides=overrides)
        endpoint = endpoint_of(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
    if endpoint is None:
        raise CliError(
            "no endpoint to probe: set ARGUS_MODEL_URL or give --url; without one argus answers by itself"
        )
    return endpoint


def _lines(endpoint: Endpoint, checks: Sequence[Check]) -> Iterator[str]:
    yield tame(f"{endpoint.shown_url} as {endpoint.profile.name}", MAX_LINE)
    for check in checks:
        mark = "ok  " if check.ok else "FAIL" if check.is_needed else "note"
        yield tame(f"  {mark} {check.name}: {check.found}", MAX_LINE)
        if check.fix:
            yield tame(f"       {check.fix}", MAX_LINE)
