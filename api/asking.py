"""What a caller asks the agent of a service, as JSON: the case, one turn of a conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from argus.agent.answer import card_of, why_lines
from argus.agent.case import Case, triage_page
from argus.agent.loop.course import Step
from argus.analytics.store.engine import Store
from argus.api.agent import Agent
from argus.api.memory import Memory, kept_conversation
from argus.api.service import Service
from argus.api.toolbox import Toolbox

LOG = logging.getLogger("argus.agent")

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Where questions are answered, and where conversations are kept for `keep_s`; `store` None = nowhere."""

    agent: Agent
    toolbox: Toolbox
    store: Store | None
    keep_s: float
    clock: Callable[[], float]

    def case(self, *, run: str | None, incident: str | None, conversation: str | None = None) -> Case:
        """The case named; else that of a conversation; else of the run heard of last.

        Raises Unknown, NoConversation.
        """
        if conversation is not None and self.store is not None and run is None and incident is None:
            about = kept_conversation(self.store, conversation)
            run, incident = about.run, about.incident_id
        return self.agent.case(self.toolbox, run=run, incident=incident)

    def memory(self, case: Case, conversation: str | None) -> Memory:
        """A conversation about a case, a new one if none is named. Raises NoConversation."""
        memory = Memory(self.store, case, keep_s=self.keep_s, clock=self.clock, conversation_id=conversation)
        if conversation is not None:
            memory.load()
        return memory

    async def turn(
        self,
        question: str,
        *,
        run: str | None = None,
        incident: str | None = None,
        conversation: str | None = None,
        watch: Callable[[Step], None] = lambda step: None,
    ) -> Json:
        """One question of a conversation with its answer, kept. Raises Unknown, NoConversation."""

        def opened() -> tuple[Case, Memory]:
            case = self.case(run=run, incident=incident, conversation=conversation)
            return case, self.memory(case, conversation)

        case, memory = await to_thread.run_sync(opened)
        answer = await self.agent.answer(
            self.toolbox,
            case,
            question=question,
            history=memory.messages,
            conversation=memory.id,
            watch=watch,
        )
        said = answer.to_json()
        kept = await to_thread.run_sync(self.kept, memory, question, said)
        return {"conversation": kept, "answer": said, "diagnosis": dict(case.diagnosis)}

    def kept(self, memory: Memory, question: str, said: Json) -> str | None:
        """Keep a question with its answer; the conversation's id, None if there is none.

        An answer that cannot be kept is given all the same, with a note.
        """
        try:
            memory.add(question, said)
        except Exception as error:
            LOG.error("an answer is not kept", exc_info=error)
            note = f"This answer is not kept in the conversation ({type(error).__name__})."
            said["note"] = f"{said['note']} {note}".strip()
        return memory.id if self.store is not None and memory.is_begun else None


def asking_of(service: Service, agent: Agent, toolbox: Toolbox) -> Asking:
    """Questions to a service."""
    return Asking(
        agent=agent,
        toolbox=toolbox,
        store=service.store,
        keep_s=service.settings.keep_conversations_s,
        clock=service.clock,
    )


def case_json(case: Case, *, toolbox: Toolbox, has_model: bool, color: bool = False) -> Json:
    """A case as text and as data; its numbers become a page of evidence."""
    toolbox.book.add(triage_page(case))
    return {
        "run": case.facts.run,
        "attempt": case.facts.attempt,
        "incident": case.incident.id if case.incident else None,
        "card": card_of(case, color=color),
        "why": list(why_lines(case, case.diagnosis, toolbox.book)),
        "diagnosis": dict(case.diagnosis),
        "has_model": has_model,
    }
