"""Investigations: asked once per key, run by one service at a time, every step kept in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, delete, func, insert, or_, select, update

from argus.analytics.store.desk_tables import INVESTIGATION_EVENTS, INVESTIGATIONS
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new
from argus.analytics.store.queries import Found, Json, page_of_rows

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
CANCELLED, INTERRUPTED = "cancelled", "interrupted"
STATUSES = (QUEUED, RUNNING, DONE, FAILED, CANCELLED, INTERRUPTED)
UNDER_WAY = (QUEUED, RUNNING)
NO_CALLBACK, WAITING, SENT, GIVEN_UP = "none", "waiting", "sent", "failed"
FORGOTTEN_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class Investigation:
    """One question about an incident or a run; `outcome` is the final diagnosis with how it came about.

    `request` is a digest of what was asked: the same key with another request is a mistake.
    """

    id: str
    run: str
    incident_id: str | None
    question: str
    asked_by: str
    created_s: float
    updated_s: float
    idempotency: str | None = None
    request: str = ""
    status: str = QUEUED
    owner: str = ""
    lease_s: float = 0.0
    is_cancelled: bool = False
    callback_url: str = ""
    callback: str = NO_CALLBACK
    callback_tries: int = 0
    callback_next_s: float = 0.0
    outcome: Json | None = None

    def to_json(self) -> Json:
        """What may be shown."""
        return {
            "id": self.id,
            "run": self.run,
            "incident": self.incident_id,
            "question": self.question,
            "status": self.status,
            "asked_by": self.asked_by,
            "created_s": self.created_s,
            "updated_s": self.updated_s,
            "callback": self.callback,
            "outcome": self.outcome,
        }


def add_investigation(connection: Connection, asked: Investigation) -> bool:
    """Keep a new one; False if its idempotency key is taken."""
    return bool(connection.execute(insert_new(connection, INVESTIGATIONS), [_row(asked)]).rowcount)


def investigation(connection: Connection, investigation_id: str) -> Investigation | None:
    """One by id; None if there is none."""
    return _one(connection, select(INVESTIGATIONS).where(INVESTIGATIONS.c.id == investigation_id))


def by_key(connection: Connection, idempotency: str) -> Investigation | None:
    """The one asked for under a key; None if there is none."""
    return _one(connection, select(INVESTIGATIONS).where(INVESTIGATIONS.c.idempotency == idempotency))


def investigations(
    connection: Connection,
    *,
    run: str | None = None,
    incident_id: str | None = None,
    status: str | None = None,
    limit: int,
    offset: int,
) -> Found:
    """The latest first."""
    wanted: list[Any] = [] if run is None else [INVESTIGATIONS.c.run == run]
    wanted += [] if incident_id is None else [INVESTIGATIONS.c.incident_id == incident_id]
    wanted += [] if status is None else [INVESTIGATIONS.c.status == status]
    statement = (
        select(INVESTIGATIONS).where(*wanted).order_by(INVESTIGATIONS.c.created_s.desc(), INVESTIGATIONS.c.id)
    )
    return page_of_rows(
        connection, statement, limit=limit, offset=offset, read=lambda row: _read(row).to_json()
    )


def num_under_way(connection: Connection) -> int:
    """Investigations that wait or run."""
    wanted = INVESTIGATIONS.c.status.in_(UNDER_WAY)
    return int(
        connection.execute(select(func.count()).select_from(INVESTIGATIONS).where(wanted)).scalar_one()
    )


def last_done(connection: Connection, incidents: list[str]) -> dict[str, Investigation]:
    """The latest finished investigation of each incident that has one."""
    is_answered = INVESTIGATIONS.c.outcome.is_not(None)
    wanted = (INVESTIGATIONS.c.incident_id.in_(incidents), is_answered)
    rows = connection.execute(
        select(INVESTIGATIONS).where(*wanted).order_by(INVESTIGATIONS.c.created_s, INVESTIGATIONS.c.id)
    )
    return {str(row.incident_id): _read(row._mapping) for row in rows}


def extend(connection: Connection, investigation_id: str, *, owner: str, lease_s: float) -> bool:
    """Hold on to one for longer; False if it was cancelled or taken away."""
    here = (
        INVESTIGATIONS.c.id == investigation_id,
        INVESTIGATIONS.c.owner == owner,
        INVESTIGATIONS.c.is_cancelled.is_(False),
        INVESTIGATIONS.c.status.in_(UNDER_WAY),
    )
    return bool(connection.execute(update(INVESTIGATIONS).where(*here).values(lease_s=lease_s)).rowcount)


def set_status(
    connection: Connection,
    investigation_id: str,
    *,
    owner: str,
    status: str,
    now_s: float,
    outcome: Json | None = None,
) -> bool:
    """Move one on; False if it is no longer the owner's."""
    values: dict[str, Any] = {"status": status, "updated_s": now_s}
    if outcome is not None:
        values["outcome"] = dump(outcome)
    here = (INVESTIGATIONS.c.id == investigation_id, INVESTIGATIONS.c.owner == owner)
    is_live = INVESTIGATIONS.c.status.in_(UNDER_WAY)
    return bool(connection.execute(update(INVESTIGATIONS).where(*here, is_live).values(**values)).rowcount)


def take_up(
    connection: Connection, investigation_id: str, *, owner: str, lease_s: float, now_s: float
) -> bool:
    """Go on with one that had ended, for a further question; False if it is under way."""
    here = (INVESTIGATIONS.c.id == investigation_id, INVESTIGATIONS.c.status.not_in(UNDER_WAY))
    values = {
        "status": RUNNING,
        "owner": owner,
        "lease_s": lease_s,
        "is_cancelled": False,
        "updated_s": now_s,
    }
    return bool(connection.execute(update(INVESTIGATIONS).where(*here).values(**values)).rowcount)


def ask_to_cancel(connection: Connection, investigation_id: str) -> bool:
    """Have one ended by its owner; False if it has ended."""
    here = (INVESTIGATIONS.c.id == investigation_id, INVESTIGATIONS.c.status.in_(UNDER_WAY))
    return bool(connection.execute(update(INVESTIGATIONS).where(*here).values(is_cancelled=True)).rowcount)


def abandoned(connection: Connection, *, now_s: float) -> list[Investigation]:
    """Those under way whose owner has not been heard of."""
    wanted = (INVESTIGATIONS.c.status.in_(UNDER_WAY), INVESTIGATIONS.c.lease_s < now_s)
    rows = connection.execute(select(INVESTIGATIONS).where(*wanted).order_by(INVESTIGATIONS.c.id))
    return [_read(row._mapping) for row in rows]


def due_callbacks(connection: Connection, *, now_s: float, rest_s: float) -> list[Investigation]:
    """Those whose asker waits to be called back; `rest_s`: longer than a call waits for its next try, ever."""
    wanted = (
        INVESTIGATIONS.c.callback == WAITING,
        INVESTIGATIONS.c.status.not_in(UNDER_WAY),
        or_(INVESTIGATIONS.c.callback_next_s <= now_s, INVESTIGATIONS.c.callback_next_s > now_s + rest_s),
    )
    rows = connection.execute(select(INVESTIGATIONS).where(*wanted).order_by(INVESTIGATIONS.c.id))
    return [_read(row._mapping) for row in rows]


def note_callback(
    connection: Connection, investigation_id: str, *, tries: int, state: str, next_s: float
) -> bool:
    """How a call back went, or that one is being made; False if another service has counted on since."""
    here = (INVESTIGATIONS.c.id == investigation_id, INVESTIGATIONS.c.callback == WAITING)
    seen = INVESTIGATIONS.c.callback_tries == tries - 1
    values = {"callback_tries": tries, "callback": state, "callback_next_s": next_s}
    return bool(connection.execute(update(INVESTIGATIONS).where(*here, seen).values(**values)).rowcount)


def settle_callback(connection: Connection, investigation_id: str, *, state: str, next_s: float) -> None:
    """What came of the call."""
    here = (INVESTIGATIONS.c.id == investigation_id, INVESTIGATIONS.c.callback == WAITING)
    connection.execute(update(INVESTIGATIONS).where(*here).values(callback=state, callback_next_s=next_s))


def add_event(connection: Connection, investigation_id: str, *, what: str, body: Json, now_s: float) -> int:
    """Append what happened; its number."""
    # Whoever notes something of it at the same time waits here, and then counts on.
    mine = select(INVESTIGATIONS.c.id).where(INVESTIGATIONS.c.id == investigation_id)
    connection.execute(mine.with_for_update(key_share=True))
    here = INVESTIGATION_EVENTS.c.investigation_id == investigation_id
    last = connection.execute(select(func.max(INVESTIGATION_EVENTS.c.number)).where(here)).scalar_one()
    number = 1 if last is None else int(last) + 1
    row = {
        "investigation_id": investigation_id,
        "number": number,
        "at_s": now_s,
        "what": what,
        "body": dump(body),
    }
    connection.execute(insert(INVESTIGATION_EVENTS), [row])
    return number


def events_after(connection: Connection, investigation_id: str, *, number: int, limit: int) -> list[Json]:
    """What happened after event `number`, in order: number, at_s, what, body."""
    wanted = (
        INVESTIGATION_EVENTS.c.investigation_id == investigation_id,
        INVESTIGATION_EVENTS.c.number > number,
    )
    rows = connection.execute(
        select(INVESTIGATION_EVENTS).where(*wanted).order_by(INVESTIGATION_EVENTS.c.number).limit(limit)
    )
    return [
        {"number": row.number, "at_s": row.at_s, "what": row.what, "body": load(row.body)} for row in rows
    ]


def forget_investigations(connection: Connection, *, before_s: float) -> None:
    """Drop the oldest of those untouched since."""
    old = select(INVESTIGATIONS.c.id).where(
        INVESTIGATIONS.c.updated_s < before_s, INVESTIGATIONS.c.status.not_in(UNDER_WAY)
    )
    gone = list(
        connection.execute(old.order_by(INVESTIGATIONS.c.updated_s).limit(FORGOTTEN_AT_ONCE)).scalars()
    )
    if gone:
        connection.execute(
            delete(INVESTIGATION_EVENTS).where(INVESTIGATION_EVENTS.c.investigation_id.in_(gone))
        )
        connection.execute(delete(INVESTIGATIONS).where(INVESTIGATIONS.c.id.in_(gone)))


def _one(connection: Connection, statement: Select[Any]) -> Investigation | None:
    row = connection.execute(statement).one_or_none()
    return None if row is None else _read(row._mapping)


def _read(row: RowMapping) -> Investigation:
    return Investigation(**{**row, "outcome": None if row["outcome"] is None else load(row["outcome"])})


def _row(asked: Investigation) -> dict[str, Any]:
    outcome = None if asked.outcome is None else dump(asked.outcome)
    return {**vars(asked), "outcome": outcome}
