"""`argus off`: stop observing a run, at run time."""

from __future__ import annotations

import argparse
import os
import sys

from argus.api.cli.over_http import add_server, ask, quoted, server_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which service."""
    parser.add_argument("--run", required=True, metavar="NAME", help="the run to switch")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Switch it off."""
    return switch(args, off=True)


def switch(args: argparse.Namespace, *, off: bool) -> int:
    """Tell the service; the hosts hear it with their next heartbeat."""
    ask(f"{server_of(args, os.environ)}/v1/runs/{quoted(args.run)}/switch", method="PUT", body={"off": off})
    word = "off" if off else "on"
    print(f"run {args.run} is switched {word}; its hosts follow within ten seconds", file=sys.stderr)
    return 0
