"""Which channels the service has had off in a run, and why: the newest change is the one that holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, ScalarSelect, func, insert, select

from argus.analytics.store.intake import AttemptKey
from argus.analytics.store.queries import Json
from argus.analytics.store.tables import ATTEMPTS, LEVEL_CHANGES


@dataclass(frozen=True, kw_only=True)
class LevelChange:
    """`level` channels off from `from_step` on; `text` says why to people."""

    run: str
    attempt: int
    at_s: float
    level: int
    from_step: int
    patience: int
    text: str


def add_change(connection: Connection, change: LevelChange) -> None:
    """What was decided."""
    connection.execute(insert(LEVEL_CHANGES), [asdict(change)])


def latest_change(connection: Connection, key: AttemptKey) -> LevelChange | None:
    """What holds in an attempt: its own last change, else that of an earlier attempt or launch, then from step 0 on."""
    run, attempt = key
    here = (LEVEL_CHANGES.c.run == run, LEVEL_CHANGES.c.attempt <= attempt)
    order = (LEVEL_CHANGES.c.attempt.desc(), LEVEL_CHANGES.c.id.desc())
    statement = select(LEVEL_CHANGES, _begun_s(key).label("begun_s")).where(*here)
    row = connection.execute(statement.order_by(*order).limit(1)).one_or_none()
    if row is None:
        return None
    names = ("run", "at_s", "level", "patience", "text")
    is_own = row.attempt == attempt and row.at_s >= row.begun_s
    from_step = row.from_step if is_own else 0
    return LevelChange(attempt=attempt, from_step=from_step, **{name: row._mapping[name] for name in names})


def _begun_s(key: AttemptKey) -> ScalarSelect[float]:
    """When the attempt was first seen, 0 if it never was: an earlier launch under its name counted other steps."""
    here = (ATTEMPTS.c.run == key[0], ATTEMPTS.c.attempt == key[1])
    return select(func.coalesce(func.max(ATTEMPTS.c.first_seen_s), 0.0)).where(*here).scalar_subquery()


def levels_of(connection: Connection, keys: Iterable[AttemptKey]) -> dict[AttemptKey, tuple[int, int]]:
    """Level of each attempt and the step from which it holds."""
    found = {key: latest_change(connection, key) for key in keys}
    return {key: (0, 0) if last is None else (last.level, last.from_step) for key, last in found.items()}


def changes(connection: Connection, key: AttemptKey, *, limit: int) -> list[Json]:
    """The last changes of an attempt, the newest first."""
    here = [LEVEL_CHANGES.c.run == key[0], LEVEL_CHANGES.c.attempt == key[1]]
    here.append(LEVEL_CHANGES.c.at_s >= _begun_s(key))
    columns = [LEVEL_CHANGES.c[name] for name in ("at_s", "level", "from_step", "text")]
    rows = connection.execute(select(*columns).where(*here).order_by(LEVEL_CHANGES.c.id.desc()).limit(limit))
    return [dict(row._mapping) for row in rows]
