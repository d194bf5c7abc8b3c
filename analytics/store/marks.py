"""What people said of an incident: that they have it, that it is wrong, that it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from argus.analytics.store.desk_tables import INCIDENT_MARKS
from argus.analytics.store.queries import Json

ACKNOWLEDGED, WRONG, RIGHT = "acknowledged", "wrong", "right"
MARKS = (ACKNOWLEDGED, WRONG, RIGHT)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """`by` is how the person is called where it was said."""

    incident_id: str
    at_s: float
    what: str
    by: str
    text: str = ""

    def to_json(self) -> Json:
        """JSON-ready."""
        return asdict(self)


def add_mark(connection: Connection, mark: Mark) -> bool:
    """Keep a mark; False if the same person has said the same of it already."""
    same = [
        one
        for one in marks_of(connection, [mark.incident_id])
        if (one.what, one.by, one.text) == (mark.what, mark.by, mark.text)
    ]
    if same:
        return False
    connection.execute(insert(INCIDENT_MARKS), [asdict(mark)])
    return True


def marks_of(connection: Connection, incidents: Sequence[str]) -> list[Mark]:
    """Marks of incidents, oldest first."""
    rows = connection.execute(
        select(INCIDENT_MARKS)
        .where(INCIDENT_MARKS.c.incident_id.in_(incidents))
        .order_by(INCIDENT_MARKS.c.id)
    )
    names = ("incident_id", "at_s", "what", "by", "text")
    return [Mark(**{name: row._mapping[name] for name in names}) for row in rows]
