"""What each tier of the store lets go of: raw rank windows after hours, a window's numbers and findings after months.

Kernel summaries, observations, evidence, conversations and history forget by themselves, in their own modules.
"""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, func, select, update

from argus.analytics.store.tables import FINDINGS, RANK_WINDOWS, WINDOWS

ROWS_AT_ONCE = 256
"""Rank windows deleted in one transaction, some ten megabytes: the intake waits no longer than for an upload."""

WINDOWS_AT_ONCE = 64
"""Windows whose numbers go in one transaction."""


def prune_rank_windows(connection: Connection, *, before_s: float, max_bytes: int) -> bool:
    """Delete a part of the raw windows that were done before `before_s`, then of the oldest beyond `max_bytes`.

    True if there is more to delete. A window that is not analysed yet is never touched.
    """
    total = connection.execute(select(func.coalesce(func.sum(WINDOWS.c.num_bytes), 0))).scalar_one()
    done_s = WINDOWS.c.analysed_s
    kept = select(WINDOWS.c.attempt_id, WINDOWS.c.window, done_s)
    kept = kept.where(WINDOWS.c.num_bytes > 0, done_s.is_not(None))
    oldest = connection.execute(kept.order_by(done_s, WINDOWS.c.window).limit(1)).one_or_none()
    if oldest is None or (oldest.analysed_s >= before_s and total <= max_bytes):
        return False
    here = and_(RANK_WINDOWS.c.attempt_id == oldest.attempt_id, RANK_WINDOWS.c.window == oldest.window)
    some = select(RANK_WINDOWS.c.rank).where(here).order_by(RANK_WINDOWS.c.rank).limit(ROWS_AT_ONCE)
    ranks = list(connection.execute(some).scalars())
    if ranks:
        upto = RANK_WINDOWS.c.rank.between(ranks[0], ranks[-1])
        connection.execute(delete(RANK_WINDOWS).where(here, upto))
    if len(ranks) < ROWS_AT_ONCE:
        window = and_(WINDOWS.c.attempt_id == oldest.attempt_id, WINDOWS.c.window == oldest.window)
        connection.execute(update(WINDOWS).where(window).values(num_bytes=0))
    return True


def prune_numbers(connection: Connection, *, before_s: float) -> bool:
    """Drop the numbers and findings of windows done before `before_s`; the windows and incidents stay.

    True if there is more to drop.
    """
    old = (
        select(WINDOWS.c.attempt_id, WINDOWS.c.window)
        .where(WINDOWS.c.analysed_s < before_s, WINDOWS.c.numbers.is_not(None))
        .order_by(WINDOWS.c.analysed_s)
        .limit(WINDOWS_AT_ONCE)
    )
    rows = connection.execute(old).all()
    for row in rows:
        here = (WINDOWS.c.attempt_id == row.attempt_id, WINDOWS.c.window == row.window)
        connection.execute(update(WINDOWS).where(*here).values(numbers=None))
        same = (FINDINGS.c.attempt_id == row.attempt_id, FINDINGS.c.window == row.window)
        connection.execute(delete(FINDINGS).where(*same))
    return len(rows) == WINDOWS_AT_ONCE
