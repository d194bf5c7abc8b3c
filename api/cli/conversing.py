"""What `argus chat` and `argus ask` share: which case, over which data, with which model, kept where."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from argus.api.cli.errors import CliError
from argus.api.cli.over_http import add_server, server_of
from argus.api.cli.paths import path, word
from argus.api.settings import SettingsError
from argus.api.settings_sources import load_settings

if TYPE_CHECKING:
    from argus.agent.evidence import Json, Pages
    from argus.agent.loop.chat import Answered
    from argus.agent.loop.course import Step
    from argus.agent.loop.drive import Watch
    from argus.agent.loop.investigate import Outcome


class Talking(Protocol):
    """A conversation with an agent, wherever that runs. Every method may raise CliError."""

    conversation: str | None
    """Its id once something of it is kept."""

    @property
    def case(self) -> Json:
        """What it is about: card, why, diagnosis, incident, run, has_model."""

    @property
    def pages(self) -> Pages:
        """What tools answered."""

    def answer(self, question: str, *, watch: Watch) -> Answered:
        """The answer to a question, after what was said before."""

    def investigate(self, question: str, *, watch: Watch) -> Outcome:
        """The whole case looked into."""

    def earlier(self, *, limit: int) -> Sequence[Json]:
        """The latest conversations."""


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare what the conversation is about and where the facts are."""
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--run", metavar="NAME", help="the run (default: the one heard of last)")
    about.add_argument(
        "--incident", metavar="ID", help="the incident (default: the run's costliest open one)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--db", type=word, metavar="DB", help="the service's database (default: that of the settings)"
    )
    where.add_argument(
        "--recording",
        nargs="+",
        type=path,
        metavar="PATH",
        help="traces or recordings instead; nothing is kept",
    )
    add_server(where, help="a running service instead; its key is ARGUS_KEY (default: ARGUS_SERVER)")
    parser.add_argument("--config", type=path, metavar="FILE", help="settings file (default argus.toml)")


def open_talk(args: argparse.Namespace, *, conversation: str | None = None) -> Talking:
    """The conversation that the arguments mean. Raises CliError."""
    if args.server or (os.environ.get("ARGUS_SERVER") and not args.db and not args.recording):
        from argus.api.cli.talk_there import There

        server = server_of(args, os.environ)
        return There(server, run=args.run, incident=args.incident, conversation=conversation)
    return _here(args, conversation)


def _here(args: argparse.Namespace, conversation: str | None) -> Talking:
    from argus.api.agent import agent_of
    from argus.api.cli.face import recorded, stored
    from argus.api.cli.talk_here import Here, asking_at

    try:
        settings, warnings = load_settings(env=os.environ, path=args.config)
        agent, problems = agent_of(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
    for text in (*warnings, *problems):
        print(f"argus: {text}", file=sys.stderr)
    toolbox = recorded(args.recording) if args.recording else stored(args.db or settings.db)
    asking = asking_at(toolbox, agent, keep_s=settings.keep_conversations_s)
    return Here(asking, run=args.run, incident=args.incident, conversation=conversation)


def step_text(step: Step) -> str:
    """A step as one line, "" for those not worth one."""
    if step.what == "called":
        note = f": {step.details['note']}" if step.details.get("note") else ""
        return f"  {step.text} → {step.details['evidence']} {step.details['status']}{note}"[:200]
    return f"  {step.text}" if step.what in ("asking", "repaired", "refused", "looking") else ""


def say(lines: Sequence[str]) -> None:
    """Print lines of an answer."""
    print("\n".join(lines), flush=True)
