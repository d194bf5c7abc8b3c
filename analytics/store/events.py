"""Out-of-band events in the store: each once, no more than there is room for, forgotten after their time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, select

from argus.analytics.store.engine import insert_new
from argus.analytics.store.history_tables import OUTSIDE_EVENTS
from argus.analytics.store.queries import Found, Json
from argus.collectors.records.outside_event import OutsideEvent

MAX_KEPT = 200_000
"""Events kept at most, the oldest go first: a week of a fleet with a flapping port every three seconds."""


def add_events(
    connection: Connection, events: Sequence[OutsideEvent], *, now_s: float, before_s: float
) -> int:
    """Store events, each once; forget those received before `before_s`. Returns how many were new."""
    rows = [
        {
            "id": event.id,
            "time_s": event.time_s,
            "received_s": now_s,
            "node": event.node,
            "source": event.source,
            "kind": event.kind,
            "text": event.text,
            "value": event.value,
        }
        for event in sorted({event.id: event for event in events}.values(), key=lambda event: event.id)
    ]
    # In one order, lest two who tell the same at once wait for each other; what the other stored is not counted.
    statement = insert_new(connection, OUTSIDE_EVENTS).returning(OUTSIDE_EVENTS.c.id)
    new = len(connection.execute(statement, rows).all()) if rows else 0
    connection.execute(delete(OUTSIDE_EVENTS).where(OUTSIDE_EVENTS.c.received_s < before_s))
    _make_room(connection)
    return new


def events_between(
    connection: Connection, *, since_s: float, until_s: float, limit: int
) -> tuple[OutsideEvent, ...]:
    """The latest `limit` events of a time, oldest first."""
    here = (OUTSIDE_EVENTS.c.time_s >= since_s, OUTSIDE_EVENTS.c.time_s <= until_s)
    order = (OUTSIDE_EVENTS.c.time_s.desc(), OUTSIDE_EVENTS.c.id)
    rows = connection.execute(select(OUTSIDE_EVENTS).where(*here).order_by(*order).limit(limit))
    return tuple(_event(row._mapping) for row in rows)[::-1]


def list_events(
    connection: Connection,
    *,
    nodes: Sequence[str] = (),
    kind: str | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    limit: int,
    offset: int,
) -> Found:
    """Events, the latest first; about `nodes` or what they hold (`gpu:h/…` under `host:h`), all if empty."""
    wanted: list[ColumnElement[bool]] = []
    if nodes:
        under = [
            f"{kind}:{node[5:]}/" for node in nodes if node.startswith("host:") for kind in ("gpu", "nic")
        ]
        same: ColumnElement[bool] = OUTSIDE_EVENTS.c.node.in_(nodes)
        for prefix in under:
            same = same | OUTSIDE_EVENTS.c.node.startswith(prefix, autoescape=True)
        wanted.append(same)
    wanted += [OUTSIDE_EVENTS.c.kind == kind] if kind is not None else []
    wanted += [OUTSIDE_EVENTS.c.time_s >= since_s] if since_s is not None else []
    wanted += [OUTSIDE_EVENTS.c.time_s <= until_s] if until_s is not None else []
    total = connection.execute(select(func.count()).select_from(OUTSIDE_EVENTS).where(*wanted)).scalar_one()
    order = (OUTSIDE_EVENTS.c.time_s.desc(), OUTSIDE_EVENTS.c.id)
    rows = connection.execute(
        select(OUTSIDE_EVENTS).where(*wanted).order_by(*order).limit(limit).offset(offset)
    )
    return Found(items=[_json(row._mapping) for row in rows], total=total)


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(OUTSIDE_EVENTS)).scalar_one())


def _make_room(connection: Connection) -> None:
    over = _count(connection) - MAX_KEPT
    if over > 0:
        oldest = (
            select(OUTSIDE_EVENTS.c.id).order_by(OUTSIDE_EVENTS.c.received_s, OUTSIDE_EVENTS.c.id).limit(over)
        )
        connection.execute(delete(OUTSIDE_EVENTS).where(OUTSIDE_EVENTS.c.id.in_(oldest.scalar_subquery())))


def _json(row: RowMapping) -> Json:
    return {**_event(row).to_json(), "received_s": row["received_s"]}


def _event(row: RowMapping) -> OutsideEvent:
    names = ("time_s", "node", "source", "text", "kind", "value")
    return OutsideEvent(**{name: row[name] for name in names})
