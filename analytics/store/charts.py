"""What only charts ask of the store: the last window with kernels, captures of an incident."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from argus.analytics.store.documents import load
from argus.analytics.store.kernel_tables import KERNEL_BLOBS
from argus.analytics.store.queries import Json, Which
from argus.analytics.store.tables import CAPTURES, HEARTBEATS, WINDOWS


def kernel_window(connection: Connection, attempt_id: int, *, upto: int | None) -> int | None:
    """The last window, none beyond `upto`, that has kernels; None if none has."""
    here = [KERNEL_BLOBS.c.attempt_id == attempt_id]
    here += [KERNEL_BLOBS.c.window <= upto] if upto is not None else []
    found = connection.execute(select(func.max(KERNEL_BLOBS.c.window)).where(*here)).scalar_one_or_none()
    return None if found is None else int(found)


def num_hosts(connection: Connection, attempt_id: int) -> int:
    """Hosts of an attempt that were heard of."""
    here = HEARTBEATS.c.attempt_id == attempt_id
    count = select(func.count(func.distinct(HEARTBEATS.c.host))).where(here)
    return int(connection.execute(count).scalar_one())


def last_analysed(connection: Connection, attempt_id: int) -> Json | None:
    """The last analysed window with its coverage, without its numbers."""
    columns = [WINDOWS.c[name] for name in ("window", "first_step", "num_steps", "analysed_s", "coverage")]
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.status == "analysed")
    statement = select(*columns).where(*here).order_by(WINDOWS.c.window.desc()).limit(1)
    row = connection.execute(statement).one_or_none()
    return None if row is None else {**row._mapping, "coverage": load(row.coverage)}


def captures_of(connection: Connection, which: Which, *, incident: str, limit: int) -> list[str]:
    """Ids of the captures of an incident, the latest first."""
    here = CAPTURES.c.attempt_id == which.id
    rows = connection.execute(select(CAPTURES).where(here).order_by(CAPTURES.c.created_s.desc()))
    return [row.id for row in rows if load(row.body).get("incident") == incident][:limit]
