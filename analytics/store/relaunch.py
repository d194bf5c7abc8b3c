"""A run that is started again under the same name and attempt: the earlier launch makes room for it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, select, update

from argus.analytics.store.documents import load
from argus.analytics.store.intake import CHUNK, AttemptKey
from argus.analytics.store.tables import ATTEMPTS, HEARTBEATS, LAYOUTS
from argus.collectors.records.layout import Layout

RELAUNCHED = "relaunched"
"""Why an attempt ended whose name another launch took over."""


def make_room(connection: Connection, layouts: Sequence[Layout], *, now_s: float, silent_s: float) -> None:
    """Rename the earlier launch of each attempt that `layouts` show to be launched anew.

    A launch is new when a rank comes with another process while the rank known so far has ended, is gone or
    was not heard of for `silent_s`: two jobs that run side by side under one name do not oust each other. So it is
    when the process itself began anew, as another program (exec), or began on the same host after the last sign of
    life of the one before: what was before is over for certain. The earlier launch's restarts go along under one
    name, as far as they are over: readers take the highest attempt for the latest.
    """
    by_key: dict[AttemptKey, list[Layout]] = {}
    for layout in layouts:
        if layout.pid:
            by_key.setdefault((layout.run, layout.attempt), []).append(layout)
    by_run = _locked(connection, {run for run, _ in by_key})
    for (run, attempt), members in sorted(by_key.items()):
        before: list[Row[Any]] = []
        for row in (row for row in by_run.get(run, ()) if row.attempt >= attempt):
            is_over = row.status != "live" or now_s - row.last_seen_s > silent_s
            if row.attempt == attempt:
                is_earlier = _is_launched_anew(connection, row.id, members, is_over=is_over)
            else:
                is_over = is_over or _are_all_gone(connection, row.id)
                is_earlier = _is_restart_of_earlier(
                    connection, row.id, members, is_over=is_over, has_room=bool(before)
                )
            before += [row] if is_earlier else []
        if before:
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before[0].first_seen_s))
            # Of a silent one nobody waits to speak again: what still comes of it must not wake it as a job of its own.
            status = case((ATTEMPTS.c.status == "silent", "ended"), else_=ATTEMPTS.c.status)
            renamed = {"run": f"{launch_prefix(run)}{since}.{before[0].id}", "end_reason": RELAUNCHED}
            those = ATTEMPTS.c.id.in_([row.id for row in before])
            connection.execute(update(ATTEMPTS).where(those).values(status=status, **renamed))
            by_run[run] = [row for row in by_run[run] if row not in before]


def _locked(connection: Connection, runs: Collection[str]) -> dict[str, list[Row[Any]]]:
    """The attempts of each run, in order; locked as the intake locks them, lest two wait for each other."""
    rows: list[Row[Any]] = []
    wanted = sorted(runs)
    for start in range(0, len(wanted), CHUNK):
        here = ATTEMPTS.c.run.in_(wanted[start : start + CHUNK])
        rows += connection.execute(
            select(ATTEMPTS).where(here).order_by(ATTEMPTS.c.id).with_for_update(key_share=True)
        )
    by_run: dict[str, list[Row[Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row.attempt)):
        by_run.setdefault(row.run, []).append(row)
    return by_run


MAX_PREFIX = 220
"""Characters of a run's name in those of its earlier launches, so that date and number have room beside it."""


def launch_prefix(run: str) -> str:
    """How the names of a run's earlier launches begin; of names too long, a digest tells those that begin alike."""
    if len(run) > MAX_PREFIX:
        digest = sha256(run.encode()).hexdigest()[:16]
        run = f"{run[: MAX_PREFIX - 1 - len(digest)]}~{digest}"
    return f"{run}@"


def is_earlier_launch(run: str) -> ColumnElement[bool]:
    """Whether an attempt is of an earlier launch of the run, and not one of a run whose own name goes on with an @."""
    prefix = launch_prefix(run)
    # Not LIKE: to that of SQLite upper and lower case are the same, and both may be runs.
    begins = func.substr(ATTEMPTS.c.run, 1, len(prefix)) == prefix
    is_dated = func.substr(ATTEMPTS.c.run, len(prefix) + 1).like("____-__-__T__:__:__.%")
    return and_(begins, is_dated, ATTEMPTS.c.end_reason == RELAUNCHED)


def run_of_launches() -> ColumnElement[str]:
    """The name that an attempt's run has or had: the same of all launches under it, but for names too long for a prefix."""
    dated = func.rtrim(
        ATTEMPTS.c.run, "0123456789"
    )  # without the number; what is left ends with "@", date and dot
    before = func.substr(dated, 1, func.length(dated) - len("@____-__-__T__:__:__."))
    return case((ATTEMPTS.c.end_reason == RELAUNCHED, before), else_=ATTEMPTS.c.run)


def launch_of(connection: Connection, run: str, *, attempt_id: int) -> int:
    """What tells an attempt from those of earlier launches of its run; 0 where there is none."""
    earlier = (is_earlier_launch(run), ATTEMPTS.c.id < attempt_id)
    found = connection.execute(select(ATTEMPTS.c.id).where(*earlier).limit(1)).one_or_none()
    return 0 if found is None else attempt_id


def _is_launched_anew(
    connection: Connection, attempt_id: int, members: Sequence[Layout], *, is_over: bool
) -> bool:
    gone = _gone_ranks(connection, attempt_id)
    return any(_is_new(connection, attempt_id, one, is_over=is_over or one.rank in gone) for one in members)


def _is_restart_of_earlier(
    connection: Connection, attempt_id: int, members: Sequence[Layout], *, is_over: bool, has_room: bool
) -> bool:
    """Whether a higher attempt than that of `members` is a restart of the launch before them, and over.

    A layout that waited through an outage comes after those of the restarts of its own launch: its process began
    before theirs. `has_room`: the earlier launch's attempt of the same number is known and over.
    """
    known = [(one, _known(connection, attempt_id, one.rank)) for one in members]
    if is_over and has_room:
        return not any(_began_ns(other) > one.began_ns for one, others in known for other in others)
    return any(
        all(0 < _began_ns(other) < one.began_ns for other in others)
        and (is_over or _is_left(connection, attempt_id, one, others))
        for one, others in known
        if others
    )


def _gone_ranks(connection: Connection, attempt_id: int) -> set[int]:
    here = (HEARTBEATS.c.attempt_id == attempt_id, HEARTBEATS.c.state != "running")
    return set(connection.execute(select(HEARTBEATS.c.rank).where(*here)).scalars())


def _are_all_gone(connection: Connection, attempt_id: int) -> bool:
    here = HEARTBEATS.c.attempt_id == attempt_id
    states = set(connection.execute(select(HEARTBEATS.c.state).where(here).distinct()).scalars())
    return bool(states) and "running" not in states


def _known(connection: Connection, attempt_id: int, rank: int) -> list[Mapping[str, Any]]:
    here = (LAYOUTS.c.attempt_id == attempt_id, LAYOUTS.c.rank == rank)
    known = [load(body) for body in connection.execute(select(LAYOUTS.c.body).where(*here)).scalars()]
    return [one for one in known if one["pid"]]


def _began_ns(known: Mapping[str, Any]) -> int:
    return int(known.get("began_ns", 0))


def _is_new(connection: Connection, attempt_id: int, layout: Layout, *, is_over: bool) -> bool:
    """Whether the rank is known, and as a process that is over: another one that `is_over`, or this one before."""
    known = _known(connection, attempt_id, layout.rank)
    same = [one for one in known if (one["host"], one["pid"]) == (layout.host, layout.pid)]
    if same:
        return all(0 < _began_ns(one) < layout.began_ns for one in same)
    return bool(known) and (is_over or _is_left(connection, attempt_id, layout, known))


def _is_left(
    connection: Connection, attempt_id: int, layout: Layout, known: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether the rank's last process ran on this host and said nothing more since this one began.

    A host's processor refuses a second process under a rank that is connected: another one is there only once the
    first is gone, though nobody may be left to say so where the processor was killed with it.
    """
    last = max(known, key=_began_ns)
    if last["host"] != layout.host or not 0 < _began_ns(last) < layout.began_ns:
        return False
    here = (HEARTBEATS.c.attempt_id == attempt_id, HEARTBEATS.c.rank == layout.rank)
    heard_s = connection.execute(select(HEARTBEATS.c.ts_s).where(*here)).scalar_one_or_none()
    return heard_s is None or heard_s * 1e9 < layout.began_ns
