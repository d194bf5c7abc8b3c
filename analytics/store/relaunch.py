"""A run that is started again under the same name and attempt: the earlier launch makes room for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from argus.analytics.store.documents import load
from argus.analytics.store.intake import AttemptKey
from argus.analytics.store.tables import ATTEMPTS, HEARTBEATS, LAYOUTS
from argus.collectors.records.layout import Layout

RELAUNCHED = "relaunched"
"""Why an attempt ended whose name another launch took over."""


def make_room(connection: Connection, layouts: Sequence[Layout], *, now_s: float, silent_s: float) -> None:
    """Rename the earlier launch of each attempt that `layouts` show to be launched anew.

    A launch is new when a rank comes with another process while the rank known so far has ended, is gone or
    was not heard of for `silent_s`: two jobs that run side by side under one name do not oust each other. So it is
    when the process itself began anew, as another program (exec): what it was before is over for certain.
    """
    by_key: dict[AttemptKey, list[Layout]] = {}
    for layout in layouts:
        if layout.pid:
            by_key.setdefault((layout.run, layout.attempt), []).append(layout)
    for (run, attempt), members in sorted(by_key.items()):
        here = (ATTEMPTS.c.run == run, ATTEMPTS.c.attempt == attempt)
        row = connection.execute(select(ATTEMPTS).where(*here).with_for_update(key_share=True)).one_or_none()
        if row is None:
            continue
        is_over = row.status != "live" or now_s - row.last_seen_s > silent_s
        gone = _gone_ranks(connection, row.id)
        if any(_is_new(connection, row.id, one, is_over=is_over or one.rank in gone) for one in members):
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(row.first_seen_s))
            renamed = {"run": f"{launch_prefix(run)}{since}.{row.id}", "end_reason": RELAUNCHED}
            connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == row.id).values(**renamed))


def launch_prefix(run: str) -> str:
    """How the names of a run's earlier launches begin."""
    return f"{run[:220]}@"


def _gone_ranks(connection: Connection, attempt_id: int) -> set[int]:
    here = (HEARTBEATS.c.attempt_id == attempt_id, HEARTBEATS.c.state != "running")
    return set(connection.execute(select(HEARTBEATS.c.rank).where(*here)).scalars())


def _is_new(connection: Connection, attempt_id: int, layout: Layout, *, is_over: bool) -> bool:
    """Whether the rank is known, and as a process that is over: another one that `is_over`, or this one before."""
    here = (LAYOUTS.c.attempt_id == attempt_id, LAYOUTS.c.rank == layout.rank)
    known = [load(body) for body in connection.execute(select(LAYOUTS.c.body).where(*here)).scalars()]
    known = [one for one in known if one["pid"]]
    same = [one for one in known if (one["host"], one["pid"]) == (layout.host, layout.pid)]
    if same:
        return all(0 < one.get("began_ns", 0) < layout.began_ns for one in same)
    return bool(known) and is_over
