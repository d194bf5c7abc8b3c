"""What waited on its host while its run was launched anew: it belongs to the launch that it was recorded in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select, tuple_

from argus.analytics.store.documents import load
from argus.analytics.store.intake import CHUNK, AttemptKey
from argus.analytics.store.relaunch import is_earlier_launch
from argus.analytics.store.tables import ATTEMPTS, LAYOUTS
from argus.collectors.records.layout import Layout

MIN_AGE_S = 1.0
"""What comes sooner was recorded by processes that run: a launch takes longer to begin."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When something of a rank was recorded: `at_ns` of its host's clock, `age_s` before now."""

    run: str
    attempt: int
    rank: int
    at_ns: int
    age_s: float


def launches_at(
    connection: Connection, moments: Collection[Moment], *, now_s: float
) -> dict[Moment, str | None]:
    """The name under which the launch goes that each moment is of, None where that launch is not known here.

    Only of moments that lie before their attempt was first heard of and may be of an earlier launch.
    """
    old = {moment for moment in moments if moment.age_s >= MIN_AGE_S}
    first_s = _first_seen_s(connection, {(one.run, one.attempt) for one in old})
    ranks: dict[AttemptKey, set[int]] = {}
    asked = [one for one in old if now_s - one.age_s < first_s.get((one.run, one.attempt), 0.0)]
    for one in asked:
        ranks.setdefault((one.run, one.attempt), set()).add(one.rank)
    began = {key: _began(connection, key, sorted(some)) for key, some in ranks.items()}
    return {one: _name(began[one.run, one.attempt].get(one.rank, []), one) for one in asked}


def outdated(connection: Connection, layouts: Sequence[Layout]) -> set[int]:
    """Indices of the layouts of processes that another one on their host has taken the rank over from since."""
    dated = {index: layout for index, layout in enumerate(layouts) if layout.began_ns}
    ranks: dict[AttemptKey, set[int]] = {}
    for layout in dated.values():
        ranks.setdefault((layout.run, layout.attempt), set()).add(layout.rank)
    kept: dict[tuple[AttemptKey, int, str, str], int] = {}
    for (run, attempt), some in ranks.items():
        here = (ATTEMPTS.c.run == run, ATTEMPTS.c.attempt == attempt, LAYOUTS.c.attempt_id == ATTEMPTS.c.id)
        for start in range(0, len(some), CHUNK):
            part = LAYOUTS.c.rank.in_(sorted(some)[start : start + CHUNK])
            for row in connection.execute(select(LAYOUTS).where(*here, part)):
                kept[(run, attempt), row.rank, row.host, row.source] = int(load(row.body).get("began_ns", 0))
    return {
        index
        for index, one in dated.items()
        if one.began_ns < kept.get(((one.run, one.attempt), one.rank, one.host, one.source), 0)
    }


def _first_seen_s(connection: Connection, keys: Collection[AttemptKey]) -> dict[AttemptKey, float]:
    found: dict[AttemptKey, float] = {}
    wanted = sorted(keys)
    for start in range(0, len(wanted), CHUNK):
        here = tuple_(ATTEMPTS.c.run, ATTEMPTS.c.attempt).in_(wanted[start : start + CHUNK])
        columns = (ATTEMPTS.c.run, ATTEMPTS.c.attempt, ATTEMPTS.c.first_seen_s)
        for run, attempt, first_seen_s in connection.execute(select(*columns).where(here)):
            found[run, attempt] = first_seen_s
    return found


def _began(connection: Connection, key: AttemptKey, ranks: Sequence[int]) -> dict[int, list[tuple[int, str]]]:
    """When each rank's processes began, with the name of their launch; by rank."""
    run, attempt = key
    family = (ATTEMPTS.c.attempt == attempt, or_(ATTEMPTS.c.run == run, is_earlier_launch(run)))
    names = {
        row.id: row.run for row in connection.execute(select(ATTEMPTS.c.id, ATTEMPTS.c.run).where(*family))
    }
    began: dict[int, list[tuple[int, str]]] = {}
    for start in range(0, len(ranks), CHUNK):
        here = (LAYOUTS.c.attempt_id.in_(names), LAYOUTS.c.rank.in_(ranks[start : start + CHUNK]))
        columns = (LAYOUTS.c.attempt_id, LAYOUTS.c.rank, LAYOUTS.c.body)
        for attempt_id, rank, body in connection.execute(select(*columns).where(*here)):
            if began_ns := int(load(body).get("began_ns", 0)):
                began.setdefault(rank, []).append((began_ns, names[attempt_id]))
    return began


def _name(began: Sequence[tuple[int, str]], moment: Moment) -> str | None:
    current = [began_ns for began_ns, name in began if name == moment.run]
    if current and moment.at_ns >= min(current):
        return moment.run
    before = max((one for one in began if one[1] != moment.run and one[0] <= moment.at_ns), default=None)
    if before is not None:
        return before[1]
    return None if current else moment.run
