"""Diagnoses as a list of their own."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, func, select

from argus.analytics.store.documents import load
from argus.analytics.store.queries import Found
from argus.analytics.store.tables import ATTEMPTS, INCIDENTS


def diagnoses(
    connection: Connection, *, run: str | None, verdict: str | None, limit: int, offset: int
) -> Found:
    """Diagnoses with the incidents they are of, the latest incident first."""
    wanted: list[ColumnElement[bool]] = [INCIDENTS.c.diagnosis.is_not(None)]
    wanted += [ATTEMPTS.c.run == run] if run is not None else []
    wanted += [INCIDENTS.c.verdict == verdict] if verdict is not None else []
    joined = (
        select(INCIDENTS, ATTEMPTS.c.run, ATTEMPTS.c.attempt)
        .join(ATTEMPTS, ATTEMPTS.c.id == INCIDENTS.c.attempt_id)
        .where(*wanted)
    )
    total = connection.execute(select(func.count()).select_from(joined.subquery())).scalar_one()
    order = (INCIDENTS.c.opened_s.desc(), INCIDENTS.c.id)
    rows = connection.execute(joined.order_by(*order).limit(limit).offset(offset))
    names = ("run", "attempt", "status", "severity", "verdict", "opened_s", "updated_s")
    items = [
        {
            "incident": row.id,
            **{name: row._mapping[name] for name in names},
            "class": row.fault_class,
            "diagnosis": load(row.diagnosis),
        }
        for row in rows
    ]
    return Found(items=items, total=total)
