"""A conversation whose agent runs in this process, over a database or a recording."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING

from argus.agent.context import Unknown
from argus.agent.evidence import Json, Pages
from argus.agent.loop.chat import Answered
from argus.agent.loop.drive import Watch
from argus.agent.loop.investigate import Outcome
from argus.analytics.store import conversations
from argus.api.asking import Asking, case_json
from argus.api.cli.errors import CliError
from argus.api.memory import Memory, NoConversation
from argus.api.store_facts import StoreFacts

if TYPE_CHECKING:
    from argus.agent.case import Case
    from argus.api.agent import Agent
    from argus.api.toolbox import Toolbox


def asking_at(toolbox: Toolbox, agent: Agent, *, keep_s: float) -> Asking:
    """Questions over a toolbox; conversations are kept in its database, if it has one."""
    store = toolbox.facts.store if isinstance(toolbox.facts, StoreFacts) else None
    return Asking(agent=agent, toolbox=toolbox, store=store, keep_s=keep_s, clock=time.time)


class Here:
    """See `Talking`. The case is that of the beginning, however the run goes on."""

    def __init__(
        self, asking: Asking, *, run: str | None, incident: str | None, conversation: str | None
    ) -> None:
        self.asking, self.conversation = asking, conversation
        self.run, self.incident = run, incident

    @cached_property
    def about(self) -> tuple[Case, Memory]:
        """The case and what was said of it before. Raises CliError."""
        try:
            case = self.asking.case(run=self.run, incident=self.incident, conversation=self.conversation)
            return case, self.asking.memory(case, self.conversation)
        except Unknown as error:
            close = f"; close: {', '.join(error.close)}" if error.close else ""
            raise CliError(f"{error}{close}", code=1) from None
        except NoConversation as error:
            raise CliError(f"{error}; argus chat --list shows those there are", code=1) from None

    @cached_property
    def case(self) -> Json:
        """What it is about."""
        has_model = self.asking.agent.endpoint is not None
        case, _ = self.about
        color = sys.stdout.isatty()
        return case_json(case, toolbox=self.asking.toolbox, has_model=has_model, color=color)

    @property
    def pages(self) -> Pages:
        """What tools answered."""
        return self.asking.toolbox.book

    def answer(self, question: str, *, watch: Watch) -> Answered:
        """The answer to a question, kept."""
        asking, (case, memory) = self.asking, self.about
        answer = asyncio.run(
            asking.agent.answer(
                asking.toolbox,
                case,
                question=question,
                history=memory.messages,
                conversation=memory.id,
                watch=watch,
            )
        )
        said = answer.to_json()
        self.conversation = asking.kept(memory, question, said)
        return Answered.from_json(said)

    def investigate(self, question: str, *, watch: Watch) -> Outcome:
        """The whole case looked into."""
        asking, (case, _) = self.asking, self.about
        return asyncio.run(asking.agent.investigate(asking.toolbox, case, question=question, watch=watch))

    def earlier(self, *, limit: int) -> Sequence[Json]:
        """The latest conversations. Raises CliError where none are kept."""
        if self.asking.store is None:
            raise CliError("a recording keeps no conversations; --list needs a database or a service")
        with self.asking.store.read() as connection:
            return [asdict(one) for one in conversations.conversations(connection, run=None, limit=limit)]
