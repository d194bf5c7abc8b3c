"""Who did what and when, with what outcome: rows are added and forgotten, never changed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from argus.analytics.store.key_tables import AUDIT
from argus.analytics.store.queries import Found

FORGOTTEN_AT_ONCE = 1000
"""Rows dropped by one that is added."""

WIDTHS = {"project": 32, "who": 160, "action": 64, "target": 300, "outcome": 64, "address": 64}


@dataclass(frozen=True, kw_only=True)
class Deed:
    """One thing somebody did or tried."""

    project: str
    who: str
    action: str
    target: str
    outcome: str
    address: str = ""


def add_deed(connection: Connection, deed: Deed, *, now_s: float) -> None:
    """Write it down."""
    row = {name: getattr(deed, name)[:width] for name, width in WIDTHS.items()}
    connection.execute(insert(AUDIT), [{**row, "at_s": now_s}])


def list_deeds(
    connection: Connection, *, project: str | None, action: str | None, limit: int, offset: int
) -> Found:
    """What was done in a project, in all if none is named, the latest first."""
    wanted: list[ColumnElement[bool]] = []
    wanted += [AUDIT.c.project == project] if project is not None else []
    wanted += [AUDIT.c.action == action] if action is not None else []
    total = connection.execute(select(func.count()).select_from(AUDIT).where(*wanted)).scalar_one()
    rows = connection.execute(
        select(AUDIT).where(*wanted).order_by(AUDIT.c.id.desc()).limit(limit).offset(offset)
    )
    return Found(items=[dict(row._mapping) for row in rows], total=total)


def forget_deeds(connection: Connection, *, before_s: float) -> None:
    """Drop what is older, a bounded number at once."""
    oldest = connection.execute(select(func.min(AUDIT.c.at_s))).scalar()
    if oldest is None or oldest >= before_s:
        return
    old = select(AUDIT.c.id).where(AUDIT.c.at_s < before_s).order_by(AUDIT.c.at_s).limit(FORGOTTEN_AT_ONCE)
    connection.execute(delete(AUDIT).where(AUDIT.c.id.in_(old.scalar_subquery())))
