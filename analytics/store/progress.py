"""How far the analysis of each attempt is: windows that are open, closed, done; and what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from argus.analytics.finding import Finding
from argus.analytics.store.bodies import grow
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new
from argus.analytics.store.intake import CHUNK, AttemptRow, attempt_row
from argus.analytics.store.tables import ATTEMPTS, FINDINGS, HEARTBEATS, LAYOUTS, RANK_WINDOWS, WINDOWS
from argus.analytics.window import Coverage
from argus.collectors.records.cost import costs_to_json
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.topology.stored import read_layouts

NUMBERS_AT_ONCE = 16
"""Windows whose numbers are read in one statement: those of ten thousand ranks are a megabyte each."""


@dataclass(frozen=True, kw_only=True)
class LiveAttempt:
    """An attempt that has not ended, as the analysis looks at it."""

    row: AttemptRow
    layouts_version: int
    last_seen_s: float
    end_reason: str


@dataclass(frozen=True, kw_only=True)
class WindowRow:
    """A window's place in its life."""

    window: int
    status: str
    first_step: int
    num_steps: int
    ranks_in: int
    opened_s: float
    analysed_s: float | None


@dataclass(frozen=True, kw_only=True)
class HeardBeat:
    """A heartbeat with the time it came in."""

    beat: Heartbeat
    received_s: float


def live_attempts(connection: Connection) -> list[LiveAttempt]:
    """Every attempt that has not ended, oldest first."""
    rows = connection.execute(select(ATTEMPTS).where(ATTEMPTS.c.status == "live").order_by(ATTEMPTS.c.id))
    return [_attempt_seen(row) for row in rows]


def attempt_seen(connection: Connection, attempt_id: int) -> LiveAttempt:
    """One attempt, live or over, as the analysis would look at it."""
    return _attempt_seen(connection.execute(select(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id)).one())


def _attempt_seen(row: Row[Any]) -> LiveAttempt:
    return LiveAttempt(
        row=attempt_row(row._mapping),
        layouts_version=row.layouts_version,
        last_seen_s=row.last_seen_s,
        end_reason=row.end_reason,
    )


def layouts_of(connection: Connection, attempt_id: int) -> list[Layout]:
    """The attempt's layouts in the order they came in."""
    statement = (
        select(LAYOUTS.c.body)
        .where(LAYOUTS.c.attempt_id == attempt_id)
        .order_by(LAYOUTS.c.received_s, LAYOUTS.c.rank, LAYOUTS.c.host)
    )
    return read_layouts(connection.execute(statement).scalars())


def beats_of(connection: Connection, attempt_id: int, *, since_s: float = 0.0) -> list[HeardBeat]:
    """The latest heartbeat of each rank, by rank; of those that came in since."""
    statement = (
        select(HEARTBEATS.c.body, HEARTBEATS.c.received_s)
        .where(HEARTBEATS.c.attempt_id == attempt_id, HEARTBEATS.c.received_s >= since_s)
        .order_by(HEARTBEATS.c.rank)
    )
    return [
        HeardBeat(beat=Heartbeat.from_json(load(row.body)), received_s=row.received_s)
        for row in connection.execute(statement)
    ]


def pending_windows(connection: Connection) -> dict[int, list[WindowRow]]:
    """Windows that are open or closed and not analysed yet, in order, by attempt id."""
    here = WINDOWS.c.status.in_(("open", "closed"))
    columns = [WINDOWS.c[name] for name in ("attempt_id", *_ROW_COLUMNS)]
    pending: dict[int, list[WindowRow]] = {}
    for row in connection.execute(select(*columns).where(here).order_by(*columns[:2])):
        pending.setdefault(row.attempt_id, []).append(_window_row(row))
    return pending


def last_windows(connection: Connection, attempt_id: int, *, limit: int) -> list[WindowRow]:
    """The last `limit` analysed windows whose parts are still kept, in order."""
    where = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.status == "analysed", WINDOWS.c.num_bytes > 0)
    columns = [WINDOWS.c[name] for name in _ROW_COLUMNS]
    statement = select(*columns).where(*where).order_by(WINDOWS.c.window.desc()).limit(limit)
    return [_window_row(row) for row in connection.execute(statement)][::-1]


def windows_before(connection: Connection, attempt_id: int, *, window: int) -> list[tuple[int, int, int]]:
    """Index, first step and steps of the analysed windows before one whose numbers are kept, in order."""
    here = (
        WINDOWS.c.attempt_id == attempt_id,
        WINDOWS.c.window < window,
        WINDOWS.c.status == "analysed",
        WINDOWS.c.numbers.is_not(None),
    )
    columns = (WINDOWS.c.window, WINDOWS.c.first_step, WINDOWS.c.num_steps)
    return [
        tuple(row) for row in connection.execute(select(*columns).where(*here).order_by(WINDOWS.c.window))
    ]


def packed_numbers(
    connection: Connection, attempt_id: int, windows: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    """Index and packed numbers of these windows, see `analytics.numbers`; of those whose numbers are kept."""
    for start in range(0, len(windows), NUMBERS_AT_ONCE):
        here = WINDOWS.c.window.in_(windows[start : start + NUMBERS_AT_ONCE])
        which = (WINDOWS.c.attempt_id == attempt_id, here, WINDOWS.c.numbers.is_not(None))
        for row in connection.execute(select(WINDOWS.c.window, WINDOWS.c.numbers).where(*which)):
            yield row.window, row.numbers


_ROW_COLUMNS = ("window", "status", "first_step", "num_steps", "ranks_in", "opened_s", "analysed_s")


def _window_row(row: Row[Any]) -> WindowRow:
    return WindowRow(**{name: row._mapping[name] for name in _ROW_COLUMNS})


def close_windows(connection: Connection, attempt_id: int, windows: Sequence[int], *, now_s: float) -> None:
    """Close windows; what comes in for them from now on is late."""
    if not windows:
        return
    # First the attempt's row: the intake locks it, so no rank window slips in as if in time.
    connection.execute(
        update(ATTEMPTS)
        .where(ATTEMPTS.c.id == attempt_id, ATTEMPTS.c.closed_window < max(windows))
        .values(closed_window=max(windows))
    )
    for start in range(0, len(windows), CHUNK):
        here = WINDOWS.c.window.in_(windows[start : start + CHUNK])
        connection.execute(
            update(WINDOWS)
            .where(WINDOWS.c.attempt_id == attempt_id, here, WINDOWS.c.status == "open")
            .values(status="closed", closed_s=now_s)
        )


def bodies_of(
    connection: Connection, attempt_id: int, window: int, *, with_late: bool = False
) -> list[bytes]:
    """What came in for a window before it closed, or also later, by rank."""
    return list(each_body(connection, attempt_id, window, with_late=with_late))


def each_body(
    connection: Connection, attempt_id: int, window: int, *, with_late: bool = False
) -> Iterator[bytes]:
    """`bodies_of` one after the other, unpacked when its turn comes: those of ten thousand ranks are gigabytes."""
    here = [RANK_WINDOWS.c.attempt_id == attempt_id, RANK_WINDOWS.c.window == window]
    here += [] if with_late else [RANK_WINDOWS.c.is_late.is_(False)]
    statement = select(RANK_WINDOWS.c.body).where(*here)
    stored = list(connection.execute(statement.order_by(RANK_WINDOWS.c.rank.desc())).scalars())
    return _unpacked(stored)


def _unpacked(stored: list[bytes]) -> Iterator[bytes]:
    while stored:
        yield grow(stored.pop())


def mark_analysed(
    connection: Connection,
    attempt_id: int,
    window: int,
    *,
    now_s: float,
    coverage: Coverage,
    numbers: bytes,
) -> None:
    """The window is done."""
    values = {
        "status": "analysed",
        "analysed_s": now_s,
        "coverage": dump(coverage_json(coverage)),
        "numbers": numbers,
    }
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == window)
    connection.execute(update(WINDOWS).where(*here).values(**values))


def mark_failed(connection: Connection, attempt_id: int, window: int, *, now_s: float, error: str) -> None:
    """The window could not be analysed; it stays so."""
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == window)
    connection.execute(
        update(WINDOWS).where(*here).values(status="failed", analysed_s=now_s, error=error[:2000])
    )


def coverage_json(coverage: Coverage) -> dict[str, object]:
    """The JSON form of a window's coverage."""
    return {
        "ratio": coverage.ratio,
        "missing_ranks": list(coverage.missing_ranks),
        "missing_steps": coverage.missing_steps,
        "dropped": dict(coverage.dropped),
        "unseen": list(coverage.unseen),
        "overhead": costs_to_json(coverage.overhead),
    }


def add_findings(
    connection: Connection, attempt_id: int, findings: Sequence[Finding], *, now_s: float
) -> None:
    """Store findings; one that is there already is the same."""
    rows = {
        finding.id: {
            "id": finding.id,
            "attempt_id": attempt_id,
            "window": finding.window,
            "level": finding.level,
            "detector": finding.detector,
            "kind": finding.kind,
            "role": finding.role,
            "created_s": now_s,
            "body": dump(finding.to_json()),
        }
        for finding in findings
    }
    if rows:
        connection.execute(insert_new(connection, FINDINGS), list(rows.values()))


def findings_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Finding]:
    """Those of the findings that are stored."""
    found = {}
    for start in range(0, len(ids), CHUNK):
        statement = select(FINDINGS.c.body).where(FINDINGS.c.id.in_(ids[start : start + CHUNK]))
        for body in connection.execute(statement).scalars():
            finding = Finding.from_json(load(body))
            found[finding.id] = finding
    return found


def save_plan(connection: Connection, attempt_id: int, plan: WindowPlan) -> None:
    """The attempt's plan from now on."""
    values = {"plan_first": plan.first, "plan_switch": plan.switch, "plan_then": plan.then}
    connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id).values(**values))


def end_attempt(connection: Connection, attempt_id: int, *, status: str, reason: str, now_s: float) -> None:
    """The attempt is over (`status` ended), or nobody speaks of it any more (silent).

    Its windows that wait still, and those of other attempts that are over, are late: nobody closes them any more.
    """
    values = {"status": status, "end_reason": reason, "ended_s": now_s}
    connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id).values(**values))
    is_over = WINDOWS.c.attempt_id.in_(select(ATTEMPTS.c.id).where(ATTEMPTS.c.status != "live"))
    waits = WINDOWS.c.status.in_(("open", "closed"))
    connection.execute(update(WINDOWS).where(waits, is_over).values(status="late"))


def backlog(connection: Connection) -> tuple[int, float | None]:
    """How many windows wait for their analysis, and since when the oldest does."""
    statement = select(func.count(), func.min(WINDOWS.c.closed_s)).where(WINDOWS.c.status == "closed")
    count, oldest_s = connection.execute(statement).one()
    return int(count), oldest_s
