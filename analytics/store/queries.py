"""What readers ask of the store, as JSON-ready rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, func, select

from argus.analytics.incident import Incident
from argus.analytics.numbers import WindowNumbers
from argus.analytics.store.documents import load
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.tables import (
    ATTEMPTS,
    CAPTURES,
    FINDINGS,
    HEARTBEATS,
    INCIDENT_EVENTS,
    INCIDENTS,
    WINDOWS,
)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """One page of a list; `total` counts the whole list."""

    items: list[Json]
    total: int


@dataclass(frozen=True, kw_only=True)
class Which:
    """An attempt that readers may ask about."""

    id: int
    run: str
    attempt: int


def attempt_of(connection: Connection, run: str, *, attempt: int | None) -> Which | None:
    """An attempt of the run, the latest if none is named; None if there is none."""
    statement = select(ATTEMPTS).where(ATTEMPTS.c.run == run)
    if attempt is not None:
        statement = statement.where(ATTEMPTS.c.attempt == attempt)
    return _which(connection, statement.order_by(ATTEMPTS.c.attempt.desc()))


def attempt_of_incident(connection: Connection, incident_id: str) -> Which | None:
    """The attempt an incident is of, as it is called by now: another launch may have its name; None without one."""
    here = ATTEMPTS.join(INCIDENTS, INCIDENTS.c.attempt_id == ATTEMPTS.c.id)
    return _which(connection, select(ATTEMPTS).select_from(here).where(INCIDENTS.c.id == incident_id))


def attempt_of_capture(connection: Connection, capture_id: str) -> Which | None:
    """The same of a capture."""
    here = ATTEMPTS.join(CAPTURES, CAPTURES.c.attempt_id == ATTEMPTS.c.id)
    return _which(connection, select(ATTEMPTS).select_from(here).where(CAPTURES.c.id == capture_id))


def _which(connection: Connection, statement: Select[Any]) -> Which | None:
    row = connection.execute(statement.limit(1)).one_or_none()
    return None if row is None else Which(id=row.id, run=row.run, attempt=row.attempt)


def runs(connection: Connection, *, limit: int, offset: int) -> Found:
    """Runs, the one heard of last first, each with its latest attempt."""
    latest = (
        select(ATTEMPTS.c.run, func.max(ATTEMPTS.c.attempt).label("attempt"))
        .group_by(ATTEMPTS.c.run)
        .subquery()
    )
    statement = (
        select(ATTEMPTS)
        .join(latest, (ATTEMPTS.c.run == latest.c.run) & (ATTEMPTS.c.attempt == latest.c.attempt))
        .order_by(ATTEMPTS.c.last_seen_s.desc(), ATTEMPTS.c.id.desc())
    )
    found = page_of_rows(connection, statement, limit=limit, offset=offset, read=dict)
    return Found(items=[_counted(connection, row) for row in found.items], total=found.total)


def attempts(connection: Connection, run: str) -> list[Json]:
    """Every attempt of a run, the latest first, with its windows and open incidents counted."""
    statement = select(ATTEMPTS).where(ATTEMPTS.c.run == run).order_by(ATTEMPTS.c.attempt.desc())
    return [_counted(connection, dict(row._mapping)) for row in connection.execute(statement).all()]


def _counted(connection: Connection, row: Json) -> Json:
    by_status = select(WINDOWS.c.status, func.count()).where(WINDOWS.c.attempt_id == row["id"])
    still_open = (INCIDENTS.c.attempt_id == row["id"], INCIDENTS.c.status == "open")
    states = select(HEARTBEATS.c.state, func.count()).where(HEARTBEATS.c.attempt_id == row["id"])
    count = connection.execute(select(func.count()).select_from(INCIDENTS).where(*still_open)).scalar_one()
    windows = _counts(connection, by_status.group_by(WINDOWS.c.status))
    return {
        **_attempt(row),
        "windows": windows.get("analysed", 0),
        "windows_by_status": windows,
        "ranks": _counts(connection, states.group_by(HEARTBEATS.c.state)),
        "open_incidents": count,
    }


def _counts(connection: Connection, statement: Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(statement)}


def _attempt(row: Json) -> Json:
    return {
        "run": row["run"],
        "attempt": row["attempt"],
        "status": row["status"],
        "end_reason": row["end_reason"] or None,
        "world_size": row["world_size"] or None,
        "highest_step": None if row["highest_step"] < 0 else row["highest_step"],
        "plan": {"first": row["plan_first"], "switch": row["plan_switch"], "then": row["plan_then"]},
        "first_seen_s": row["first_seen_s"],
        "last_seen_s": row["last_seen_s"],
        "ended_s": row["ended_s"],
    }


def heartbeats(connection: Connection, attempt_id: int, *, limit: int, offset: int) -> Found:
    """The latest heartbeat of each rank."""
    statement = select(HEARTBEATS).where(HEARTBEATS.c.attempt_id == attempt_id).order_by(HEARTBEATS.c.rank)
    return page_of_rows(
        connection,
        statement,
        limit=limit,
        offset=offset,
        read=lambda row: {**load(row["body"]), "received_s": row["received_s"]},
    )


def windows(connection: Connection, attempt_id: int, *, status: str | None, limit: int, offset: int) -> Found:
    """Windows, the latest first."""
    statement = select(WINDOWS).where(WINDOWS.c.attempt_id == attempt_id)
    if status:
        statement = statement.where(WINDOWS.c.status == status)
    statement = statement.order_by(WINDOWS.c.window.desc())
    return page_of_rows(connection, statement, limit=limit, offset=offset, read=_window)


def window(connection: Connection, attempt_id: int, index: int) -> Json | None:
    """One window with what each rank did in it; None if there is none."""
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == index)
    row = connection.execute(select(WINDOWS).where(*here)).one_or_none()
    if row is None:
        return None
    numbers = None if row.numbers is None else _numbers(WindowNumbers.from_bytes(row.numbers))
    return {**_window(row._mapping), "numbers": numbers}


def _window(row: RowMapping) -> Json:
    return {
        "window": row["window"],
        "status": row["status"],
        "first_step": row["first_step"],
        "num_steps": row["num_steps"],
        "ranks_in": row["ranks_in"],
        "opened_s": row["opened_s"],
        "closed_s": row["closed_s"],
        "analysed_s": row["analysed_s"],
        "coverage": None if row["coverage"] is None else load(row["coverage"]),
        "error": row["error"],
    }


def _numbers(numbers: WindowNumbers) -> Json:
    return {
        "ranks": numbers.ranks,
        "step_s": numbers.step_s,
        "job_step_s": numbers.job_step_s,
        "told": dict(numbers.told),
        "phases": [
            {
                "phase": name,
                "clock": numbers.clocks[i],
                "dur_s": numbers.phase_s[i],
                "wait_s": numbers.wait_s[i],
                "cpu_s": numbers.cpu_s[i],
            }
            for i, name in enumerate(numbers.phases)
        ],
    }


def series(connection: Connection, attempt_id: int, *, ranks: Sequence[int], limit: int) -> list[Json]:
    """Mean step time of the last `limit` analysed windows, of the job and of `ranks`, oldest first."""
    statement = (
        select(WINDOWS.c.window, WINDOWS.c.first_step, WINDOWS.c.num_steps, WINDOWS.c.numbers)
        .where(WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.numbers.is_not(None))
        .order_by(WINDOWS.c.window.desc())
        .limit(limit)
    )
    points = []
    for row in connection.execute(statement):
        numbers = WindowNumbers.from_bytes(row.numbers)
        step_s = dict(zip(numbers.ranks.tolist(), numbers.step_s.tolist(), strict=True))
        points.append(
            {
                "window": row.window,
                "first_step": row.first_step,
                "num_steps": row.num_steps,
                "job_step_s": float(numbers.job_step_s.mean()) if len(numbers.job_step_s) else None,
                "step_s": {rank: step_s[rank] for rank in ranks if rank in step_s},
            }
        )
    return points[::-1]


def findings(
    connection: Connection,
    *,
    attempt_id: int,
    window: int | None,
    level: str | None,
    limit: int,
    offset: int,
) -> Found:
    """Findings of an attempt, those of the latest window first."""
    statement = select(FINDINGS).where(FINDINGS.c.attempt_id == attempt_id)
    if window is not None:
        statement = statement.where(FINDINGS.c.window == window)
    if level:
        statement = statement.where(FINDINGS.c.level == level)
    statement = statement.order_by(FINDINGS.c.window.desc(), FINDINGS.c.id)
    return page_of_rows(connection, statement, limit=limit, offset=offset, read=lambda row: load(row["body"]))


def incidents(
    connection: Connection,
    *,
    run: str | None,
    status: str | None,
    fault_class: str | None,
    limit: int,
    offset: int,
) -> Found:
    """Incidents, open ones first, then the latest."""
    wanted: list[ColumnElement[bool]] = []
    if run is not None:
        wanted.append(INCIDENTS.c.attempt_id.in_(select(ATTEMPTS.c.id).where(ATTEMPTS.c.run == run)))
    if status is not None:
        wanted.append(INCIDENTS.c.status == status)
    if fault_class is not None:
        wanted.append(INCIDENTS.c.fault_class == fault_class)
    statement = (
        _incidents().where(*wanted).order_by(INCIDENTS.c.status, INCIDENTS.c.opened_s.desc(), INCIDENTS.c.id)
    )
    return page_of_rows(connection, statement, limit=limit, offset=offset, read=_incident)


def incident(connection: Connection, incident_id: str) -> Json | None:
    """One incident with what happened to it; None if there is none."""
    row = connection.execute(_incidents().where(INCIDENTS.c.id == incident_id)).one_or_none()
    if row is None:
        return None
    events = (
        select(INCIDENT_EVENTS)
        .where(INCIDENT_EVENTS.c.incident_id == incident_id)
        .order_by(INCIDENT_EVENTS.c.id)
    )
    told = [
        {"at_s": event.at_s, "what": event.what, **load(event.body)} for event in connection.execute(events)
    ]
    return {**_incident(row._mapping), "events": told}


def whole_incident(connection: Connection, incident_id: str) -> Incident | None:
    """One incident as a value; None if there is none."""
    row = connection.execute(select(INCIDENTS).where(INCIDENTS.c.id == incident_id)).one_or_none()
    return None if row is None else read_incident(row._mapping)


def _incidents() -> Select[Any]:
    return select(INCIDENTS, ATTEMPTS.c.run).join(ATTEMPTS, ATTEMPTS.c.id == INCIDENTS.c.attempt_id)


def _incident(row: RowMapping) -> Json:
    """Under the name that its run has by now: another launch may have the one it was opened under."""
    by_now = {name: row[name] for name in ("run", "opened_s", "updated_s")}
    return {**read_incident(row).to_json(), **by_now}


def page_of_rows(
    connection: Connection,
    statement: Select[Any],
    *,
    limit: int,
    offset: int,
    read: Callable[[RowMapping], Json],
) -> Found:
    """One page of what a statement finds, each row as `read` makes it."""
    total = connection.execute(select(func.count()).select_from(statement.order_by(None).subquery()))
    rows = connection.execute(statement.limit(limit).offset(offset))
    return Found(items=[read(row._mapping) for row in rows], total=total.scalar_one())
