"""Conversations with the agent: what was asked and answered, in order, forgotten after their time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from argus.analytics.store.documents import dump, load
from argus.analytics.store.queries import Json
from argus.analytics.store.tables import METADATA

CONVERSATIONS = Table(
    "conversations",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("run", String(256), nullable=False),
    Column("incident_id", String(64)),
    Column("title", String(200), nullable=False),
    Column("created_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Index(None, "updated_s"),
)

CONVERSATION_ENTRIES = Table(
    "conversation_entries",
    METADATA,
    Column("conversation_id", String(32), ForeignKey("conversations.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at_s", Float, nullable=False),
    Column("role", String(16), nullable=False),  # user, assistant
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("conversation_id", "number"),
)

MAX_TITLE = 200
FORGOTTEN_AT_ONCE = 100
"""Conversations dropped by one that begins."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What it is about; its entries are read apart."""

    id: str
    run: str
    incident_id: str | None
    title: str
    created_s: float
    updated_s: float


def begin(connection: Connection, conversation: Conversation) -> None:
    """Keep a new conversation."""
    row = {**vars(conversation), "title": conversation.title[:MAX_TITLE]}
    connection.execute(insert(CONVERSATIONS), [row])


def add_entry(connection: Connection, conversation_id: str, *, role: str, body: Json, now_s: float) -> int:
    """Append a question or an answer; its number."""
    # First its row: who speaks in it at the same time waits for it, and then counts on.
    touched = update(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id).values(updated_s=now_s)
    connection.execute(touched)
    here = CONVERSATION_ENTRIES.c.conversation_id == conversation_id
    last = connection.execute(select(func.max(CONVERSATION_ENTRIES.c.number)).where(here)).scalar_one()
    number = 0 if last is None else int(last) + 1
    row = {
        "conversation_id": conversation_id,
        "number": number,
        "at_s": now_s,
        "role": role,
        "body": dump(body),
    }
    connection.execute(insert(CONVERSATION_ENTRIES), [row])
    return number


def conversation(connection: Connection, conversation_id: str) -> Conversation | None:
    """One by id; None if there is none."""
    found = connection.execute(
        select(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id)
    ).one_or_none()
    return None if found is None else Conversation(**found._mapping)


def entries(connection: Connection, conversation_id: str) -> list[Json]:
    """Its questions and answers in order."""
    here = CONVERSATION_ENTRIES.c.conversation_id == conversation_id
    rows = connection.execute(
        select(CONVERSATION_ENTRIES).where(here).order_by(CONVERSATION_ENTRIES.c.number)
    )
    return [{"number": row.number, "at_s": row.at_s, "role": row.role, **load(row.body)} for row in rows]


def conversations(
    connection: Connection, *, run: str | None, limit: int, offset: int = 0
) -> list[Conversation]:
    """Those spoken in last, the latest first."""
    order = (CONVERSATIONS.c.updated_s.desc(), CONVERSATIONS.c.id)
    latest = select(CONVERSATIONS).where(*_of_run(run)).order_by(*order).limit(limit).offset(offset)
    return [Conversation(**row._mapping) for row in connection.execute(latest)]


def num_conversations(connection: Connection, *, run: str | None) -> int:
    """How many there are."""
    counted = select(func.count()).select_from(CONVERSATIONS).where(*_of_run(run))
    return int(connection.execute(counted).scalar_one())


def _of_run(run: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if run is None else (CONVERSATIONS.c.run == run,)


def forget_conversations(connection: Connection, *, before_s: float) -> int:
    """Drop the oldest of those nobody has spoken in since; how many."""
    old = select(CONVERSATIONS.c.id).where(CONVERSATIONS.c.updated_s < before_s)
    ids: Iterable[str] = connection.execute(
        old.order_by(CONVERSATIONS.c.updated_s).limit(FORGOTTEN_AT_ONCE)
    ).scalars()
    gone = list(ids)
    if gone:
        connection.execute(
            delete(CONVERSATION_ENTRIES).where(CONVERSATION_ENTRIES.c.conversation_id.in_(gone))
        )
        connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id.in_(gone)))
    return len(gone)
