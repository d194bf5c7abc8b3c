"""One conversation with the agent: what was said before, and keeping what is said now."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from argus.agent.case import Case
from argus.agent.model.message import Message
from argus.analytics.store import conversations
from argus.analytics.store.conversations import Conversation
from argus.analytics.store.engine import Store

ID_BYTES = 8


class NoConversation(LookupError):
    """There is no such conversation; the message says which."""


def kept_conversation(store: Store, conversation_id: str) -> Conversation:
    """What an earlier conversation is about. Raises NoConversation."""
    with store.read() as connection:
        found = conversations.conversation(connection, conversation_id)
    if found is None:
        raise NoConversation(f"no conversation {conversation_id[:64]!r}")
    return found


class Memory:
    """Questions and answers about a case, kept in the database where there is one; `clock` gives Unix seconds."""

    def __init__(
        self,
        store: Store | None,
        case: Case,
        *,
        keep_s: float,
        clock: Callable[[], float],
        conversation_id: str | None = None,
    ) -> None:
        self.store, self.case = store, case
        self.keep_s, self.clock = keep_s, clock
        self.id = conversation_id or secrets.token_hex(ID_BYTES)
        self.is_begun = conversation_id is not None
        self.messages: list[Message] = []

    def load(self) -> None:
        """Read what was said before. Raises NoConversation."""
        if self.store is None:
            raise NoConversation("a recording keeps no conversations")
        kept_conversation(self.store, self.id)
        with self.store.read() as connection:
            kept = conversations.entries(connection, self.id)
        self.messages = [
            Message(role=item["role"], content=str(item["text"])) for item in kept if item["text"]
        ]

    def add(self, question: str, answer: Mapping[str, Any]) -> None:
        """Keep a question with its answer in JSON form."""
        text = str(answer["text"])
        if text:
            self.messages += [Message(role="user", content=question), Message(role="assistant", content=text)]
        if self.store is not None:
            self._keep(self.store, question, answer)

    def _keep(self, store: Store, question: str, answer: Mapping[str, Any]) -> None:
        now_s = self.clock()
        with store.write() as connection:
            if not self.is_begun:
                conversations.begin(connection, self._new(question, now_s))
                conversations.forget_conversations(connection, before_s=now_s - self.keep_s)
            conversations.add_entry(connection, self.id, role="user", body={"text": question}, now_s=now_s)
            conversations.add_entry(connection, self.id, role="assistant", body=dict(answer), now_s=now_s)
        self.is_begun = True

    def _new(self, question: str, now_s: float) -> Conversation:
        incident = self.case.incident
        return Conversation(
            id=self.id,
            run=self.case.facts.run,
            incident_id=incident.id if incident else None,
            title=question,
            created_s=now_s,
            updated_s=now_s,
        )
