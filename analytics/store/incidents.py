"""Incidents in the store: saved once each, read back whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select

from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Cost, Incident, RuledOut, Separation
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import upsert
from argus.analytics.store.tables import INCIDENT_EVENTS, INCIDENTS

# A change of one of these is told; new numbers in the same decision are not.
_TOLD = ("status", "severity", "verdict", "fault_class")


@dataclass(frozen=True, kw_only=True)
class IncidentEvent:
    """What happened to an incident: opened, changed, resolved or reopened."""

    what: str
    incident: Incident


def save_incident(
    connection: Connection, attempt_id: int, incident: Incident, *, now_s: float
) -> IncidentEvent | None:
    """Store the incident; the event it makes, None if only its numbers moved."""
    known = connection.execute(select(INCIDENTS).where(INCIDENTS.c.id == incident.id)).one_or_none()
    row = _row(incident, attempt_id, now_s=now_s)
    if known is not None:
        row["opened_s"] = known.opened_s
        if row["diagnosis"] is None:
            row["diagnosis"] = known.diagnosis
    changing = tuple(name for name in row if name not in ("id", "attempt_id"))
    connection.execute(upsert(connection, INCIDENTS, set_=changing), [row])
    what = _what(None if known is None else known._mapping, row)
    if what is None:
        return None
    told = dump({name: row[name] for name in _TOLD})
    event = {"incident_id": incident.id, "at_s": now_s, "what": what, "body": told}
    connection.execute(insert(INCIDENT_EVENTS), [event])
    return IncidentEvent(what=what, incident=incident)


def _row(incident: Incident, attempt_id: int, *, now_s: float) -> dict[str, object]:
    return {
        "id": incident.id,
        "attempt_id": attempt_id,
        "fingerprint": incident.fingerprint,
        "status": incident.status,
        "severity": incident.severity,
        "verdict": incident.cause.verdict,
        "fault_class": incident.cause.fault_class,
        "opened_window": incident.opened_window,
        "opened_s": now_s,
        "updated_s": now_s,
        "body": dump({**asdict(incident), "diagnosis": None}),
        "diagnosis": None if incident.diagnosis is None else dump(incident.diagnosis),
    }


def _what(before: RowMapping | None, row: Mapping[str, object]) -> str | None:
    if before is None:
        return "opened"
    if all(before[name] == row[name] for name in _TOLD):
        return None
    if before["status"] == row["status"]:
        return "changed"
    return "resolved" if row["status"] == "resolved" else "reopened"


def open_incidents(connection: Connection, attempt_id: int) -> list[Incident]:
    """The attempt's incidents that are not resolved, oldest first."""
    here = (INCIDENTS.c.attempt_id == attempt_id, INCIDENTS.c.status == "open")
    rows = connection.execute(select(INCIDENTS).where(*here).order_by(INCIDENTS.c.opened_s, INCIDENTS.c.id))
    return [read_incident(row._mapping) for row in rows]


def all_incidents(connection: Connection, attempt_id: int) -> list[Incident]:
    """The attempt's incidents, open and resolved, oldest first."""
    order = (INCIDENTS.c.opened_s, INCIDENTS.c.id)
    rows = connection.execute(select(INCIDENTS).where(INCIDENTS.c.attempt_id == attempt_id).order_by(*order))
    return [read_incident(row._mapping) for row in rows]


def read_incident(row: RowMapping) -> Incident:
    """A row of the table as the incident that was saved."""
    raw = load(row["body"])
    cause = raw["cause"]
    tuples = ("suspects", "victims", "findings", "paths")
    return Incident(
        **{
            **raw,
            "cause": Cause(
                **{
                    **cause,
                    **{name: tuple(cause.get(name, ())) for name in tuples},
                    "separation": _separation(cause.get("separation")),
                    "ruled_out": tuple(_ruled_out(item) for item in cause["ruled_out"]),
                    "evidence": _evidence(cause["evidence"]),
                }
            ),
            "cost": Cost(**raw["cost"]),
            "diagnosis": None if row["diagnosis"] is None else load(row["diagnosis"]),
        }
    )


def _separation(raw: dict[str, str] | None) -> Separation | None:
    return None if raw is None else Separation(**raw)


def _ruled_out(raw: dict[str, Any]) -> RuledOut:
    return RuledOut(**{**raw, "evidence": _evidence(raw["evidence"])})


def _evidence(raw: list[dict[str, Any]]) -> tuple[Evidence, ...]:
    return tuple(Evidence(**item) for item in raw)
