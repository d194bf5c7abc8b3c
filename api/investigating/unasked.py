"""Investigations nobody asks for: each new incident that is bad enough, once, where a model is set up."""

from __future__ import annotations

from sqlalchemy import Connection, select

from argus.analytics.incident import SEVERITIES
from argus.analytics.store.desk_tables import INVESTIGATIONS
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.tables import INCIDENTS
from argus.api.investigating.asked import Asked

OFF = "off"
FLOORS = (OFF, *SEVERITIES)
AT_ONCE = 3
"""Begun in one turn: a storm of incidents must not become a storm of models."""

BY = "argus"


def key_of(incident_id: str) -> str:
    """The idempotency key: whoever comes first asks."""
    return f"unasked:{incident_id}"


def due(connection: Connection, *, floor: str) -> list[Asked]:
    """Open incidents of at least `floor` that nobody has looked into by themselves."""
    if floor == OFF:
        return []
    bad = SEVERITIES[: SEVERITIES.index(floor) + 1]
    looked = select(INVESTIGATIONS.c.incident_id).where(
        INVESTIGATIONS.c.idempotency.startswith("unasked:"), INVESTIGATIONS.c.incident_id.is_not(None)
    )
    wanted = (
        INCIDENTS.c.status == "open",
        INCIDENTS.c.severity.in_(bad),
        INCIDENTS.c.diagnosis.is_not(None),
        INCIDENTS.c.id.not_in(looked),
    )
    rows = connection.execute(select(INCIDENTS).where(*wanted).order_by(INCIDENTS.c.opened_s).limit(AT_ONCE))
    found = [read_incident(row._mapping) for row in rows]
    return [Asked(run=one.run, incident=one.id, by=BY, idempotency=key_of(one.id)) for one in found]
