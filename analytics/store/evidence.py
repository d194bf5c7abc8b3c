"""What tools answered, as it was: written once, read by id, forgotten after its time."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import upsert
from argus.analytics.store.queries import Found, Json
from argus.analytics.store.tables import EVIDENCE

FORGOTTEN_AT_ONCE = 1000
"""Rows dropped by one answer: an answer must not pay for a backlog."""


def add_evidence(connection: Connection, result: Json, *, now_s: float) -> None:
    """Keep a result under its id. What is kept already is the same, for an id is made of the content."""
    row = {
        "id": result["evidence_id"],
        "seen_s": now_s,
        "tool": result["tool"],
        "status": result["status"],
        "run": result["as_of"]["run"],
        "attempt": result["as_of"]["attempt"],
        "body": dump(result),
    }
    connection.execute(upsert(connection, EVIDENCE, set_=("seen_s",)), [row])


def evidence_of(connection: Connection, evidence_id: str) -> Json | None:
    """A result by id; None if there is none."""
    body = connection.execute(
        select(EVIDENCE.c.body).where(EVIDENCE.c.id == evidence_id)
    ).scalar_one_or_none()
    return None if body is None else load(body)


def list_evidence(connection: Connection, *, run: str | None, limit: int, offset: int = 0) -> Found:
    """The results last answered, the latest first, without their data."""
    wanted = () if run is None else (EVIDENCE.c.run == run,)
    columns = (EVIDENCE.c.id, EVIDENCE.c.tool, EVIDENCE.c.status, EVIDENCE.c.run, EVIDENCE.c.seen_s)
    total = connection.execute(select(func.count()).select_from(EVIDENCE).where(*wanted)).scalar_one()
    latest = select(*columns).where(*wanted).order_by(EVIDENCE.c.seen_s.desc(), EVIDENCE.c.id)
    rows = connection.execute(latest.limit(limit).offset(offset))
    return Found(items=[dict(row._mapping) for row in rows], total=total)


def forget_evidence(connection: Connection, *, before_s: float) -> None:
    """Drop what was last answered before `before_s`, the oldest first and a bounded number at once."""
    oldest = connection.execute(select(func.min(EVIDENCE.c.seen_s))).scalar()
    if oldest is None or oldest >= before_s:
        return
    old = select(EVIDENCE.c.id).where(EVIDENCE.c.seen_s < before_s).order_by(EVIDENCE.c.seen_s)
    connection.execute(
        delete(EVIDENCE).where(EVIDENCE.c.id.in_(old.limit(FORGOTTEN_AT_ONCE).scalar_subquery()))
    )
