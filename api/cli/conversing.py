"""What `argus chat` and `argus ask` share: which case, over which data, with which model, kept where."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argus.api.cli.errors import CliError
from argus.api.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from argus.agent.case import Case
    from argus.agent.loop.course import Step
    from argus.agent.model.message import Message
    from argus.analytics.store.engine import Store
    from argus.api.agent import Agent
    from argus.api.toolbox import Toolbox


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare what the conversation is about and where the facts are."""
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--run", metavar="NAME", help="the run (default: the one heard of last)")
    about.add_argument(
        "--incident", metavar="ID", help="the incident (default: the run's costliest open one)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--db", metavar="DB", help="the service's database (default: that of the settings)")
    where.add_argument(
        "--recording",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="traces or recordings instead; nothing is kept",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default argus.toml)")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Everything a conversation needs; `store` None = it is kept nowhere."""

    settings: Settings
    agent: Agent
    toolbox: Toolbox
    case: Case
    store: Store | None


def open_table(args: argparse.Namespace) -> Table:
    """Settings, data, case. Raises CliError."""
    from argus.agent.context import Unknown
    from argus.api.agent import agent_of
    from argus.api.cli.face import recorded, stored
    from argus.api.store_facts import StoreFacts

    try:
        settings, warnings = load_settings(env=os.environ, path=args.config)
        agent, problems = agent_of(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
    for text in (*warnings, *problems):
        print(f"argus: {text}", file=sys.stderr)
    toolbox = recorded(args.recording) if args.recording else stored(args.db or settings.db)
    store = toolbox.facts.store if isinstance(toolbox.facts, StoreFacts) else None
    try:
        case = agent.case(toolbox, run=args.run, incident=args.incident)
    except Unknown as error:
        close = f"; close: {', '.join(error.close)}" if error.close else ""
        raise CliError(f"{error}{close}", code=1) from None
    return Table(settings=settings, agent=agent, toolbox=toolbox, case=case, store=store)


class Memory:
    """One conversation, kept in the database where there is one."""

    def __init__(self, table: Table, conversation_id: str | None = None) -> None:
        self.store = table.store
        self.keep_s = table.settings.keep_conversations_s
        self.case = table.case
        self.id = conversation_id or secrets.token_hex(8)
        self.is_begun = conversation_id is not None
        self.messages: list[Message] = []

    def load(self) -> None:
        """What was said before. Raises CliError if there is no such conversation."""
        from argus.agent.model.message import Message
        from argus.analytics.store import conversations

        if self.store is None:
            raise CliError("a recording keeps no conversations; --resume needs a database")
        with self.store.read() as connection:
            if conversations.conversation(connection, self.id) is None:
                raise CliError(f"no conversation {self.id!r}; argus chat --list shows them", code=1)
            kept = conversations.entries(connection, self.id)
        self.messages = [
            Message(role=item["role"], content=str(item["text"])) for item in kept if item["text"]
        ]

    def add(self, question: str, answer: Mapping[str, Any]) -> None:
        """Keep a question with its answer."""
        from argus.agent.model.message import Message

        text = str(answer["text"])
        if text:
            self.messages += [Message(role="user", content=question), Message(role="assistant", content=text)]
        if self.store is not None:
            self._keep(question, answer)

    def _keep(self, question: str, answer: Mapping[str, Any]) -> None:
        from argus.analytics.store import conversations

        assert self.store is not None
        now_s = time.time()
        with self.store.write() as connection:
            if not self.is_begun:
                conversations.begin(connection, self._new(question, now_s))
                conversations.forget_conversations(connection, before_s=now_s - self.keep_s)
            conversations.add_entry(connection, self.id, role="user", body={"text": question}, now_s=now_s)
            conversations.add_entry(connection, self.id, role="assistant", body=dict(answer), now_s=now_s)
        self.is_begun = True

    def _new(self, question: str, now_s: float) -> Any:
        from argus.analytics.store.conversations import Conversation

        incident = self.case.incident
        return Conversation(
            id=self.id,
            run=self.case.facts.run,
            incident_id=incident.id if incident else None,
            title=question,
            created_s=now_s,
            updated_s=now_s,
        )


def step_text(step: Step) -> str:
    """A step as one line, "" for those not worth one."""
    if step.what == "called":
        note = f": {step.details['note']}" if step.details.get("note") else ""
        return f"  {step.text} → {step.details['evidence']} {step.details['status']}{note}"[:200]
    return f"  {step.text}" if step.what in ("asking", "repaired", "refused") else ""


def say(lines: Sequence[str]) -> None:
    """Print lines of an answer."""
    print("\n".join(lines), flush=True)
