"""Stacks and host samples in the store: each distinct stack once, everything gone after its time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, select

from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new, upsert
from argus.analytics.store.intake import CHUNK, AttemptKey, AttemptRow
from argus.analytics.store.queries import Found, Json
from argus.analytics.store.tables import HOST_SAMPLES, STACK_DUMPS, STACKS
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.stacks import REASONS, StackDump, Thread

BASELINE = REASONS[0]


def add_stacks(
    connection: Connection,
    dumps: Sequence[StackDump],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    now_s: float,
) -> None:
    """Store dumps, each (attempt, rank, time) once."""
    texts = {
        stack_id(thread.stack): thread.stack for item in dumps for thread in item.threads if thread.stack
    }
    stacks = [{"id": key, "seen_s": now_s, "text": text} for key, text in sorted(texts.items())]
    rows = [
        {
            "attempt_id": attempts[item.run, item.attempt].id,
            "rank": item.rank,
            "ts_s": item.ts_s,
            "received_s": now_s,
            "reason": item.reason,
            "body": dump(_body(item)),
        }
        for item in dumps
    ]
    if stacks:
        connection.execute(upsert(connection, STACKS, set_=("seen_s",)), stacks)
    if rows:
        connection.execute(insert_new(connection, STACK_DUMPS), rows)


def add_samples(connection: Connection, samples: Sequence[HostSample], *, now_s: float) -> None:
    """Store host samples, each (host, time) once."""
    rows = [
        {"host": item.host, "end_s": item.end_s, "received_s": now_s, "body": dump(item.to_json())}
        for item in samples
    ]
    if rows:
        connection.execute(insert_new(connection, HOST_SAMPLES), rows)


def forget_observations(connection: Connection, *, before_s: float) -> None:
    """Drop what came in before `before_s`."""
    connection.execute(delete(STACK_DUMPS).where(STACK_DUMPS.c.received_s < before_s))
    connection.execute(delete(HOST_SAMPLES).where(HOST_SAMPLES.c.received_s < before_s))
    connection.execute(delete(STACKS).where(STACKS.c.seen_s < before_s))


def stack_id(text: str) -> str:
    """What names a folded stack."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def stacks(
    connection: Connection,
    attempt_id: int,
    *,
    ranks: Sequence[int],
    reason: str | None,
    limit: int,
    offset: int,
) -> Found:
    """Dumps of an attempt, the latest first, with their stacks' text; of `ranks`, of all if empty."""
    wanted = [STACK_DUMPS.c.attempt_id == attempt_id]
    wanted += [STACK_DUMPS.c.rank.in_(ranks)] if ranks else []
    wanted += [STACK_DUMPS.c.reason == reason] if reason else []
    total = connection.execute(select(func.count()).select_from(STACK_DUMPS).where(*wanted)).scalar_one()
    order = (STACK_DUMPS.c.ts_s.desc(), STACK_DUMPS.c.rank)
    rows = connection.execute(select(STACK_DUMPS).where(*wanted).order_by(*order).limit(limit).offset(offset))
    items = [load(row.body) for row in rows]
    texts = _texts(connection, {thread["stack"] for item in items for thread in item["threads"]} - {""})
    for item in items:
        for thread in item["threads"]:
            thread["stack"] = texts.get(thread["stack"], "")
    return Found(items=items, total=total)


def dumps_since(
    connection: Connection, row: AttemptRow, *, since_s: float, limit: int
) -> tuple[StackDump, ...]:
    """The latest `limit` dumps of slow steps, their peers and bursts that came in since, oldest first."""
    here = (
        STACK_DUMPS.c.attempt_id == row.id,
        STACK_DUMPS.c.received_s >= since_s,
        STACK_DUMPS.c.reason != BASELINE,
    )
    order = (STACK_DUMPS.c.received_s.desc(), STACK_DUMPS.c.rank)
    found = connection.execute(select(STACK_DUMPS.c.body).where(*here).order_by(*order).limit(limit))
    items = [load(body) for body in found.scalars()]
    texts = _texts(connection, {thread["stack"] for item in items for thread in item["threads"]} - {""})
    return tuple(_dump(item, row, texts) for item in items[::-1])


def _dump(item: Json, row: AttemptRow, texts: Mapping[str, str]) -> StackDump:
    threads = tuple(
        Thread(**{**thread, "stack": texts.get(thread["stack"], "")}) for thread in item["threads"]
    )
    return StackDump(**{**item, "run": row.run, "attempt": row.attempt, "threads": threads})


def samples(connection: Connection, host: str, *, limit: int, offset: int) -> Found:
    """Samples of a host, the latest first."""
    here = HOST_SAMPLES.c.host == host
    total = connection.execute(select(func.count()).select_from(HOST_SAMPLES).where(here)).scalar_one()
    rows = connection.execute(
        select(HOST_SAMPLES).where(here).order_by(HOST_SAMPLES.c.end_s.desc()).limit(limit).offset(offset)
    )
    return Found(items=[_sample(row._mapping) for row in rows], total=total)


def latest_samples(connection: Connection, hosts: Sequence[str]) -> dict[str, Json]:
    """The last sample of each host."""
    found = {}
    for start in range(0, len(hosts), CHUNK):
        part = HOST_SAMPLES.c.host.in_(hosts[start : start + CHUNK])
        latest = (
            select(HOST_SAMPLES.c.host, func.max(HOST_SAMPLES.c.end_s).label("end_s"))
            .where(part)
            .group_by(HOST_SAMPLES.c.host)
            .subquery()
        )
        same = (HOST_SAMPLES.c.host == latest.c.host) & (HOST_SAMPLES.c.end_s == latest.c.end_s)
        for row in connection.execute(select(HOST_SAMPLES).join(latest, same)):
            found[row.host] = _sample(row._mapping)
    return found


def _sample(row: RowMapping) -> Json:
    return {**load(row["body"]), "received_s": row["received_s"]}


def _texts(connection: Connection, ids: set[str]) -> dict[str, str]:
    ordered, found = sorted(ids), {}
    for start in range(0, len(ordered), CHUNK):
        part = STACKS.c.id.in_(ordered[start : start + CHUNK])
        for row in connection.execute(select(STACKS.c.id, STACKS.c.text).where(part)):
            found[row.id] = row.text
    return found


def _body(item: StackDump) -> dict[str, Any]:
    names = ("rank", "host", "ts_s", "step", "open_s", "reason", "is_native", "error", "detail")
    return {**{name: getattr(item, name) for name in names}, "threads": [_thread(t) for t in item.threads]}


def _thread(thread: Thread) -> dict[str, Any]:
    names = ("kind", "name", "state", "has_gil", "is_active", "wchan")
    stack = stack_id(thread.stack) if thread.stack else ""
    return {**{name: getattr(thread, name) for name in names}, "stack": stack}
