"""`argus eval`: a table of action to module, each imported only when it is used: some need seconds for that."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Protocol, cast

from argus.api.cli.late import LateParser

ACTIONS: Mapping[str, tuple[str, str]] = {
    "real": ("argus.evals.real", "public recordings, their published answers beside what came out"),
    "calibrate": (
        "argus.evals.calibrate",
        "simulated distributions beside recorded ones, where they differ",
    ),
    "fidelity": ("argus.evals.fidelity", "what kernel summaries lose, and what that costs"),
    "agent": ("argus.evals.agents.report", "the agent's answers, by scripted models and the endpoint's"),
    "live": ("argus.evals.live.command", "real faults on real training jobs of this machine"),
    "run": (
        "argus.evals.evaluate",
        "simulate every scenario of a suite, analyse it, compare with the truth",
    ),
}
"""Action: (module, help). A module has `add_arguments(parser)` and `run(args) -> exit code`."""


class Action(Protocol):
    """What an action's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the action's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every kind of evaluation; its options come with it."""
    actions = parser.add_subparsers(dest="action", required=True, parser_class=LateParser)
    for name, (module, text) in ACTIONS.items():
        actions.add_parser(name, help=text).declare = partial(_declare, module)


def _declare(module: str, parser: argparse.ArgumentParser) -> None:
    _load(module).add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """What was asked for."""
    return _load(ACTIONS[args.action][0]).run(args)


def _load(module: str) -> Action:
    return cast(Action, import_module(module))
