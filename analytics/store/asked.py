"""What tools ask of the store: a few rows each, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, func, select

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.numbers import WindowNumbers, apart
from argus.analytics.store.bodies import grow
from argus.analytics.store.documents import load
from argus.analytics.store.history_tables import BOUTS
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.intake import CHUNK
from argus.analytics.store.kernel_tables import KERNEL_BLOBS
from argus.analytics.store.queries import Json
from argus.analytics.store.tables import (
    ATTEMPTS,
    CAPTURES,
    FINDINGS,
    INCIDENTS,
    RANK_WINDOWS,
    WINDOWS,
)


def run_names(connection: Connection, *, limit: int) -> list[str]:
    """Names of runs, the one heard of last first."""
    latest = func.max(ATTEMPTS.c.last_seen_s)
    statement = select(ATTEMPTS.c.run).group_by(ATTEMPTS.c.run).order_by(latest.desc(), ATTEMPTS.c.run)
    return list(connection.execute(statement.limit(limit)).scalars())


def layouts_version(connection: Connection, attempt_id: int) -> tuple[float, int]:
    """What changes when a layout record of the attempt comes in.

    It is no other attempt's either: in the place of a damaged database another one numbers its own from 1 again.
    """
    found = select(ATTEMPTS.c.first_seen_s, ATTEMPTS.c.layouts_version).where(ATTEMPTS.c.id == attempt_id)
    first_seen_s, version = connection.execute(found).one()
    return float(first_seen_s), int(version)


def analysed_windows(connection: Connection, attempt_id: int, *, limit: int, upto: int | None) -> list[Json]:
    """The last analysed windows, none beyond `upto`, the latest first, without their numbers."""
    columns = [WINDOWS.c[name] for name in ("window", "first_step", "num_steps", "analysed_s", "coverage")]
    here = [WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.status == "analysed", *_upto(WINDOWS, upto)]
    rows = connection.execute(select(*columns).where(*here).order_by(WINDOWS.c.window.desc()).limit(limit))
    return [{**row._mapping, "coverage": load(row.coverage)} for row in rows]


def _upto(table: Table, window: int | None) -> list[ColumnElement[bool]]:
    return [] if window is None else [table.c.window <= window]


def numbers_of(connection: Connection, attempt_id: int, window: int) -> WindowNumbers | None:
    """Per rank and phase what a window took; None where it is not kept."""
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == window)
    body = connection.execute(select(WINDOWS.c.numbers).where(*here)).scalar_one_or_none()
    return None if body is None else WindowNumbers.from_bytes(body)


def numbers_bodies(
    connection: Connection, attempt_id: int, *, limit: int, upto: int | None, since_step: int | None = None
) -> Iterator[Any]:
    """Window, first_step, num_steps and packed numbers of the last windows, the latest first; every second or fewer of them
    where the last `limit` do not reach back to some time before `since_step`."""
    columns = [WINDOWS.c[name] for name in ("window", "first_step", "num_steps", "numbers")]
    here = [WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.numbers.is_not(None), *_upto(WINDOWS, upto)]
    if since_step is not None:
        ends = select(func.min(WINDOWS.c.window), func.max(WINDOWS.c.window))
        first, last = connection.execute(ends.where(*here, WINDOWS.c.first_step >= since_step)).one()
        every = 1 if first is None else apart(last - first, limit=limit)
        here += [WINDOWS.c.window % every == last % every] if every > 1 else []
    yield from connection.execute(
        select(*columns).where(*here).order_by(WINDOWS.c.window.desc()).limit(limit)
    )


def findings_between(
    connection: Connection, attempt_id: int, *, since: int | None, upto: int | None, limit: int
) -> list[Finding]:
    """Findings of windows `since` … `upto`, those of the latest window first."""
    wanted = [FINDINGS.c.attempt_id == attempt_id, *_upto(FINDINGS, upto)]
    wanted += [FINDINGS.c.window >= since] if since is not None else []
    statement = select(FINDINGS.c.body).where(*wanted).order_by(FINDINGS.c.window.desc(), FINDINGS.c.id)
    return [Finding.from_json(load(body)) for body in connection.execute(statement.limit(limit)).scalars()]


def incidents_of(
    connection: Connection, *, run: str | None, fault_class: str | None, limit: int
) -> list[Incident]:
    """Incidents as values, open ones first, then the latest."""
    wanted: list[ColumnElement[bool]] = []
    if run is not None:
        wanted.append(INCIDENTS.c.attempt_id.in_(select(ATTEMPTS.c.id).where(ATTEMPTS.c.run == run)))
    if fault_class is not None:
        wanted.append(INCIDENTS.c.fault_class == fault_class)
    order = (INCIDENTS.c.status, INCIDENTS.c.opened_s.desc(), INCIDENTS.c.id)
    rows = connection.execute(select(INCIDENTS).where(*wanted).order_by(*order).limit(limit))
    return [read_incident(row._mapping) for row in rows]


def past_incidents(
    connection: Connection, fault_class: str, *, since_s: float | None, limit: int
) -> list[tuple[Incident, str, float]]:
    """Incidents of a class, each with how its run is called by now and when it was opened, the latest first."""
    wanted = [INCIDENTS.c.fault_class == fault_class]
    wanted += [INCIDENTS.c.opened_s >= since_s] if since_s is not None else []
    order = (INCIDENTS.c.opened_s.desc(), INCIDENTS.c.id)
    statement = select(INCIDENTS, ATTEMPTS.c.run).join(ATTEMPTS, ATTEMPTS.c.id == INCIDENTS.c.attempt_id)
    rows = connection.execute(statement.where(*wanted).order_by(*order).limit(limit)).all()
    return [(read_incident(row._mapping), row.run, row.opened_s) for row in rows]


def bodies_of_ranks(
    connection: Connection, attempt_id: int, window: int, *, ranks: Sequence[int]
) -> list[bytes]:
    """What came in for a window of some ranks before it closed, by rank."""
    here = (RANK_WINDOWS.c.attempt_id == attempt_id, RANK_WINDOWS.c.window == window)
    found: list[bytes] = []
    for start in range(0, len(ranks), CHUNK):
        mine = (RANK_WINDOWS.c.rank.in_(ranks[start : start + CHUNK]), RANK_WINDOWS.c.is_late.is_(False))
        statement = select(RANK_WINDOWS.c.body).where(*here, *mine).order_by(RANK_WINDOWS.c.rank)
        found += [grow(body) for body in connection.execute(statement).scalars()]
    return found


def blobs_of_hosts(
    connection: Connection, attempt_id: int, window: int, *, hosts: Sequence[str]
) -> list[bytes]:
    """Packed kernel summaries of some hosts."""
    here = (KERNEL_BLOBS.c.attempt_id == attempt_id, KERNEL_BLOBS.c.window == window)
    found: list[bytes] = []
    for start in range(0, len(hosts), CHUNK):
        mine = KERNEL_BLOBS.c.host.in_(hosts[start : start + CHUNK])
        order = (KERNEL_BLOBS.c.host, KERNEL_BLOBS.c.rank)
        found += connection.execute(select(KERNEL_BLOBS.c.body).where(*here, mine).order_by(*order)).scalars()
    return found


def captured_since(connection: Connection, attempt_id: int, *, since_s: float) -> list[list[int]]:
    """The ranks of each capture of an attempt that was ordered since then."""
    here = (CAPTURES.c.attempt_id == attempt_id, CAPTURES.c.created_s >= since_s)
    return [
        load(body)["ranks"] for body in connection.execute(select(CAPTURES.c.body).where(*here)).scalars()
    ]


def bouts_of(connection: Connection, *, host: str | None, device: str | None, limit: int) -> list[Json]:
    """When a host's GPUs or one of them were bad, in which run, the latest first."""
    wanted: list[ColumnElement[bool]] = []
    wanted += [BOUTS.c.host == host] if host is not None else []
    wanted += [BOUTS.c.device == device] if device is not None else []
    columns = [BOUTS.c[name] for name in ("host", "device", "since_s", "until_s")]
    statement = (
        select(ATTEMPTS.c.run, *columns, BOUTS.c.num.label("windows"))
        .join(ATTEMPTS, ATTEMPTS.c.id == BOUTS.c.attempt_id)
        .where(*wanted)
        .order_by(BOUTS.c.until_s.desc())
    )
    return [dict(row._mapping) for row in connection.execute(statement.limit(limit))]
