"""Outcomes of incidents in the store: what people said, and what the incident's own and later attempts show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, RowMapping, and_, func, insert, or_, select

from argus.analytics.incident import Incident
from argus.analytics.outcome import (
    RIGHT,
    SAID,
    WRONG,
    Follower,
    Outcome,
    ended_with_attempt,
    seen_in_attempt,
    seen_in_follower,
)
from argus.analytics.store import marks
from argus.analytics.store.desk_tables import INCIDENT_OUTCOMES
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.relaunch import RELAUNCHED, is_earlier_launch
from argus.analytics.store.tables import ATTEMPTS, INCIDENTS, LAYOUTS, WINDOWS
from argus.analytics.store.units import units_of_ranks

MAX_FOLLOWERS = 5
"""Later attempts looked at: what crashed at once says nothing, the next may."""

MAX_AGAIN = 50
"""Incidents of a class looked at in a later attempt."""

MAX_SUSPECTS = 16
"""Suspects whose hardware is looked up."""

SHARED = ("group", "run", "stage")
"""Scopes that mean the same in every attempt; a rank may be on other hardware after a restart."""


def add_outcome(connection: Connection, outcome: Outcome) -> bool:
    """Keep what somebody says; False if the same person has said the same of it already."""
    known = _said(connection, [outcome.incident_id])
    if any(
        (one.did, one.result, one.by, one.text) == (outcome.did, outcome.result, outcome.by, outcome.text)
        for one in known
    ):
        return False
    row = {name: value for name, value in outcome.to_json().items() if name != "source"}
    connection.execute(insert(INCIDENT_OUTCOMES), [row])
    return True


def outcomes_of(connection: Connection, incidents: Sequence[Incident]) -> dict[str, tuple[Outcome, ...]]:
    """Of each incident what was said, oldest first, then what is seen; nothing is kept of those without any."""
    ids = [one.id for one in incidents]
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in (*_said(connection, ids), *_marked(connection, ids)):
        found[outcome.incident_id].append(outcome)
    for incident in incidents:
        if (seen := _seen(connection, incident)) is not None:
            found[incident.id].append(seen)
    return {key: tuple(values) for key, values in found.items()}


def _said(connection: Connection, ids: Sequence[str]) -> list[Outcome]:
    """The last word of each person on each thing done."""
    table = INCIDENT_OUTCOMES
    rows = connection.execute(select(table).where(table.c.incident_id.in_(ids)).order_by(table.c.id))
    last: dict[tuple[str, str, str], Outcome] = {}
    for row in rows:
        named = {name: value for name, value in row._mapping.items() if name != "id"}
        one = Outcome(source=SAID, **named)
        last.pop((one.incident_id, one.by, one.did), None)
        last[one.incident_id, one.by, one.did] = one
    return list(last.values())


def _marked(connection: Connection, ids: Sequence[str]) -> Iterator[Outcome]:
    """That somebody called the incident wrong or right is an outcome too."""
    for mark in marks.marks_of(connection, ids):
        if mark.what in (WRONG, RIGHT):
            yield Outcome(
                incident_id=mark.incident_id,
                at_s=mark.at_s,
                source=SAID,
                did="",
                result=mark.what,
                by=mark.by,
                text=mark.text,
            )


def _seen(connection: Connection, incident: Incident) -> Outcome | None:
    statement = (
        select(
            INCIDENTS.c.attempt_id,
            INCIDENTS.c.opened_s,
            INCIDENTS.c.updated_s,
            ATTEMPTS.c.run,
            ATTEMPTS.c.end_reason,
            ATTEMPTS.c.first_seen_s,
        )
        .join(ATTEMPTS, ATTEMPTS.c.id == INCIDENTS.c.attempt_id)
        .where(INCIDENTS.c.id == incident.id)
    )
    row = connection.execute(statement).one_or_none()
    if row is None or incident.status == "open":
        return None
    if not ended_with_attempt(incident):
        came_back = _came_back(connection, row.attempt_id, incident, opened_s=row.opened_s)
        return seen_in_attempt(incident, at_s=row.updated_s, came_back=came_back)
    for later in _followers(connection, row._mapping, incident):
        if (found := seen_in_follower(incident, later)) is not None:
            return found
    return None


def _came_back(connection: Connection, attempt_id: int, incident: Incident, *, opened_s: float) -> bool:
    in_its_window = and_(INCIDENTS.c.opened_window == incident.last_window, INCIDENTS.c.opened_s > opened_s)
    again = (
        INCIDENTS.c.attempt_id == attempt_id,
        INCIDENTS.c.fingerprint == incident.fingerprint,
        or_(INCIDENTS.c.opened_window > incident.last_window, in_its_window),
    )
    return connection.execute(select(INCIDENTS.c.id).where(*again).limit(1)).one_or_none() is not None


def _followers(connection: Connection, row: RowMapping, incident: Incident) -> Iterator[Follower]:
    """Later attempts and launches of the job, the next one first."""
    run = row["run"].rpartition("@")[0] if row["end_reason"] == RELAUNCHED else row["run"]
    named = or_(ATTEMPTS.c.run == run, is_earlier_launch(run))
    later = (named, ATTEMPTS.c.first_seen_s > row["first_seen_s"])
    order = (ATTEMPTS.c.first_seen_s, ATTEMPTS.c.id)
    units = _units(connection, row["attempt_id"], incident)
    hosts = {host for host, _ in units}
    for attempt in connection.execute(select(ATTEMPTS).where(*later).order_by(*order).limit(MAX_FOLLOWERS)):
        analysed = (WINDOWS.c.attempt_id == attempt.id, WINDOWS.c.status == "analysed")
        count = connection.execute(select(func.count()).select_from(WINDOWS).where(*analysed)).scalar_one()
        there = (LAYOUTS.c.attempt_id == attempt.id, LAYOUTS.c.host.in_(hosts))
        is_there = connection.execute(select(LAYOUTS.c.rank).where(*there).limit(1)).one_or_none()
        yield Follower(
            attempt=attempt.attempt,
            begun_s=attempt.first_seen_s,
            windows=count,
            has_hosts=not hosts or is_there is not None,
            is_again=_is_again(connection, attempt.id, incident, units=units),
        )


def _is_again(
    connection: Connection, attempt_id: int, incident: Incident, *, units: set[tuple[str, str]]
) -> bool:
    """Whether another attempt has an incident of the class at the same place: the hardware, else the scope."""
    here = (INCIDENTS.c.attempt_id == attempt_id, INCIDENTS.c.fault_class == incident.cause.fault_class)
    rows = connection.execute(select(INCIDENTS).where(*here).limit(MAX_AGAIN)).all()
    for row in rows:
        other = read_incident(row._mapping)
        is_shared = incident.cause.scope.partition(":")[0] in SHARED or not units
        if is_shared and other.cause.scope == incident.cause.scope:
            return True
        if not is_shared and units & _units(connection, attempt_id, other):
            return True
    return False


def _units(connection: Connection, attempt_id: int, incident: Incident) -> set[tuple[str, str]]:
    ranks = incident.cause.suspects[:MAX_SUSPECTS]
    return {unit for unit in units_of_ranks(connection, attempt_id, ranks).values() if unit[0]}
