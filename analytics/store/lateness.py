"""Windows that came too late for a verdict: which of them wait to be looked at, and what they said."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, or_, select, update

from argus.analytics.store.documents import dump
from argus.analytics.store.progress import WindowRow, coverage_json
from argus.analytics.store.tables import ATTEMPTS, WINDOWS
from argus.analytics.window import Coverage


@dataclass(frozen=True, kw_only=True)
class LateWindow:
    """A late window; `made_s` is when its hosts made it."""

    attempt_id: int
    row: WindowRow
    made_s: float


def late_windows(connection: Connection, *, before_s: float, limit: int) -> list[LateWindow]:
    """Late windows not looked at yet that are complete or began to come in before `before_s`, the oldest first."""
    is_whole = (ATTEMPTS.c.world_size > 0) & (WINDOWS.c.ranks_in >= ATTEMPTS.c.world_size)
    statement = (
        select(WINDOWS)
        .join(ATTEMPTS, ATTEMPTS.c.id == WINDOWS.c.attempt_id)
        .where(
            WINDOWS.c.status == "late",
            WINDOWS.c.analysed_s.is_(None),
            or_(is_whole, WINDOWS.c.opened_s < before_s),
        )
        .order_by(WINDOWS.c.attempt_id, WINDOWS.c.window)
        .limit(limit)
    )
    names = ("window", "status", "first_step", "num_steps", "ranks_in", "opened_s", "analysed_s")
    return [
        LateWindow(
            attempt_id=row.attempt_id,
            row=WindowRow(**{name: row._mapping[name] for name in names}),
            made_s=row.opened_s if row.closed_s is None else row.closed_s,
        )
        for row in connection.execute(statement)
    ]


def mark_late(
    connection: Connection,
    late: LateWindow,
    *,
    now_s: float,
    coverage: Coverage | None = None,
    numbers: bytes | None = None,
    error: str | None = None,
) -> None:
    """The window was looked at; it stays late."""
    values = {
        "analysed_s": now_s,
        "coverage": None if coverage is None else dump(coverage_json(coverage)),
        "numbers": numbers,
        "error": None if error is None else error[:2000],
    }
    here = (WINDOWS.c.attempt_id == late.attempt_id, WINDOWS.c.window == late.row.window)
    connection.execute(update(WINDOWS).where(*here).values(**values))
