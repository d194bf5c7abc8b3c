"""What comes in from the hosts: layouts, rank windows, heartbeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from sqlalchemy import Connection, RowMapping, and_, bindparam, or_, select, tuple_, update

from argus.analytics.store.documents import dump, dump_plain
from argus.analytics.store.engine import insert_new, upsert
from argus.analytics.store.tables import ATTEMPTS, HEARTBEATS, LAYOUTS, RANK_WINDOWS, WINDOWS
from argus.collectors.records.heartbeat import CLOCK_STEP_S, Heartbeat
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.upload import REPLAY_S

AttemptKey = tuple[str, int]

MAX_AHEAD_STEPS = 1_000_000
"""A window so far ahead of the highest step known is a mistake of its sender; taken, it would make every
true window late."""

CHUNK = 500
"""Keys per IN list: far below every database's limit on parameters."""


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """What the intake needs of an attempt."""

    id: int
    run: str
    attempt: int
    status: str
    world_size: int
    closed_window: int
    highest_step: int
    plan: WindowPlan


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One rank's window as it came in, checked; `index` is its place in the upload.

    `body` is what `bodies.shrink` made of it; `kernels` came along and is stored apart.
    """

    index: int
    run: str
    attempt: int
    rank: int
    window: int
    first_step: int
    num_steps: int
    host: str
    body: bytes
    kernels: bytes = b""
    age_s: float = 0.0  # how long it waited on its host
    ended_ns: int = 0  # end of its last step, by its host's clock


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """An item that was not taken, and why."""

    index: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Received:
    """What became of an upload."""

    accepted: int
    duplicates: int
    rejected: tuple[Rejection, ...]


def ensure_attempts(
    connection: Connection, keys: Iterable[AttemptKey], *, plan: WindowPlan, now_s: float
) -> dict[AttemptKey, AttemptRow]:
    """The attempts' rows, made with `plan` where they are new."""
    wanted = sorted(set(keys))
    rows = [
        {
            "run": run,
            "attempt": attempt,
            "plan_first": plan.first,
            "plan_switch": plan.switch,
            "plan_then": plan.then,
            "first_seen_s": now_s,
            "last_seen_s": now_s,
        }
        for run, attempt in wanted
    ]
    if rows:
        connection.execute(insert_new(connection, ATTEMPTS), rows)
    found: dict[AttemptKey, AttemptRow] = {}
    for start in range(0, len(wanted), CHUNK):
        part = tuple_(ATTEMPTS.c.run, ATTEMPTS.c.attempt).in_(wanted[start : start + CHUNK])
        # The lock keeps a window from closing between our look at it and our insert.
        statement = select(ATTEMPTS).where(part).order_by(ATTEMPTS.c.id).with_for_update(key_share=True)
        for row in connection.execute(statement):
            found[row.run, row.attempt] = attempt_row(row._mapping)
    return found


def attempt_row(row: RowMapping) -> AttemptRow:
    """A row of the table as a value."""
    number = {key: int(str(row[key])) for key in _NUMBERS}
    return AttemptRow(
        id=number["id"],
        run=str(row["run"]),
        attempt=number["attempt"],
        status=str(row["status"]),
        world_size=number["world_size"],
        closed_window=number["closed_window"],
        highest_step=number["highest_step"],
        plan=WindowPlan(first=number["plan_first"], switch=number["plan_switch"], then=number["plan_then"]),
    )


_NUMBERS = (
    "id",
    "attempt",
    "world_size",
    "closed_window",
    "highest_step",
    "plan_first",
    "plan_switch",
    "plan_then",
)


def add_layouts(
    connection: Connection,
    layouts: Sequence[Layout],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    now_s: float,
) -> None:
    """Keep the latest layout of each (rank, host, source)."""
    rows = {}
    worlds: dict[int, int] = {}
    for layout in layouts:
        attempt_id = attempts[layout.run, layout.attempt].id
        worlds[attempt_id] = max(worlds.get(attempt_id, 0), layout.world_size)
        rows[attempt_id, layout.rank, layout.host, layout.source] = {
            "attempt_id": attempt_id,
            "rank": layout.rank,
            "host": layout.host,
            "source": layout.source,
            "received_s": now_s,
            "body": dump(layout.to_json()),
        }
    if not rows:
        return
    connection.execute(upsert(connection, LAYOUTS, set_=("received_s", "body")), list(rows.values()))
    for attempt_id, world in sorted(worlds.items()):
        larger = ATTEMPTS.c.world_size < world
        connection.execute(
            update(ATTEMPTS)
            .where(ATTEMPTS.c.id == attempt_id)
            .values(layouts_version=ATTEMPTS.c.layouts_version + 1, last_seen_s=now_s)
        )
        connection.execute(
            update(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id, larger).values(world_size=world)
        )


def add_heartbeats(
    connection: Connection,
    beats: Sequence[Heartbeat],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    now_s: float,
    texts: Sequence[str] = (),
) -> None:
    """Keep the latest heartbeat of each rank; one that is a little older than the kept is ignored.

    `texts` are their documents, where the caller has them.
    """
    rows: dict[tuple[int, int], dict[str, object]] = {}
    documents = texts or [dump_plain(beat.to_json()) for beat in beats]
    for beat, document in sorted(zip(beats, documents, strict=True), key=lambda pair: pair[0].ts_s):
        attempt_id = attempts[beat.run, beat.attempt].id
        rows[attempt_id, beat.rank] = {
            "attempt_id": attempt_id,
            "rank": beat.rank,
            "host": beat.host,
            "ts_s": beat.ts_s,
            "received_s": now_s,
            "state": beat.state,
            "body": document,
        }
    if not rows:
        return
    statement = upsert(
        connection,
        HEARTBEATS,
        set_=("host", "ts_s", "received_s", "state", "body"),
        where=lambda new: or_(new.ts_s >= HEARTBEATS.c.ts_s, new.ts_s < HEARTBEATS.c.ts_s - CLOCK_STEP_S),
    )
    connection.execute(statement, [rows[key] for key in sorted(rows)])
    highest: dict[int, int] = {}
    for beat in beats:
        attempt_id = attempts[beat.run, beat.attempt].id
        highest[attempt_id] = max(highest.get(attempt_id, -1), beat.status.step)
    _touch(connection, highest, now_s=now_s)


def add_uploads(
    connection: Connection,
    uploads: Sequence[Sequence[Arrival]],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    now_s: float,
) -> list[Received]:
    """Store each (run, attempt, rank, window) of several uploads once, the first one counts; what became of each."""
    known = _windows_of(connection, [arrival for upload in uploads for arrival in upload], attempts)
    taken: dict[_Key, tuple[int, Arrival]] = {}
    rejected: list[list[Rejection]] = [[] for _ in uploads]
    new: dict[tuple[int, int], dict[str, object]] = {}
    for number, arrival in ((n, arrival) for n, upload in enumerate(uploads) for arrival in upload):
        attempt = attempts[arrival.run, arrival.attempt]
        key = (attempt.id, arrival.window)
        reason = _mismatch(arrival, attempt, known.get(key))
        if reason:
            rejected[number].append(Rejection(index=arrival.index, reason=reason))
            continue
        if key not in known:
            is_open = not _is_late(arrival, attempt)
            known[key] = _Known(first_step=arrival.first_step, num_steps=arrival.num_steps, is_open=is_open)
            new[key] = _new_window(arrival, is_open=is_open, attempt_id=attempt.id, now_s=now_s)
        taken.setdefault((*key, arrival.rank), (number, arrival))
    if new:
        connection.execute(insert_new(connection, WINDOWS), [new[key] for key in sorted(new)])
    arrived = {key: arrival for key, (_, arrival) in taken.items()}
    late = {key for key, window in known.items() if not window.is_open}
    inserted = _insert_bodies(connection, arrived, late=late, now_s=now_s)
    _count_in(connection, inserted, arrived)
    _touch(connection, _highest_steps(inserted, arrived), now_s=now_s)
    accepted = Counter(taken[key][0] for key in inserted)
    return [_received(upload, accepted=accepted[n], rejected=rejected[n]) for n, upload in enumerate(uploads)]


def _received(upload: Sequence[Arrival], *, accepted: int, rejected: Sequence[Rejection]) -> Received:
    duplicates = len(upload) - len(rejected) - accepted
    return Received(accepted=accepted, duplicates=duplicates, rejected=tuple(rejected))


_Key = tuple[int, int, int]
"""Attempt id, window, rank."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A window that is there; what comes in while it is open counts, however long it waited on its host."""

    first_step: int
    num_steps: int
    is_open: bool


def _windows_of(
    connection: Connection, arrivals: Sequence[Arrival], attempts: Mapping[AttemptKey, AttemptRow]
) -> dict[tuple[int, int], _Known]:
    """Those windows of the arrivals that exist, by (attempt id, window)."""
    indices: dict[int, set[int]] = {}
    for arrival in arrivals:
        indices.setdefault(attempts[arrival.run, arrival.attempt].id, set()).add(arrival.window)
    known = {}
    for attempt_id, windows in indices.items():
        ordered = sorted(windows)
        for start in range(0, len(ordered), CHUNK):
            here = and_(
                WINDOWS.c.attempt_id == attempt_id,
                WINDOWS.c.window.in_(ordered[start : start + CHUNK]),
            )
            columns = (WINDOWS.c.window, WINDOWS.c.first_step, WINDOWS.c.num_steps, WINDOWS.c.status)
            for window, first_step, num_steps, status in connection.execute(select(*columns).where(here)):
                known[attempt_id, window] = _Known(
                    first_step=first_step, num_steps=num_steps, is_open=status == "open"
                )
    return known


def _mismatch(arrival: Arrival, attempt: AttemptRow, known: _Known | None) -> str:
    if attempt.world_size and arrival.rank >= attempt.world_size:
        return f"rank {arrival.rank} is not in [0, {attempt.world_size - 1}], the ranks of the layout records"
    if 0 <= attempt.highest_step < arrival.first_step - MAX_AHEAD_STEPS:
        return f"window {arrival.window} begins at step {arrival.first_step}, the job is at {attempt.highest_step}"
    got = (arrival.first_step, arrival.num_steps)
    if known is not None and (known.first_step, known.num_steps) != got:
        return (
            f"window {arrival.window} has {known.num_steps} steps from step {known.first_step} on the other ranks, "
            f"got {got[1]} from {got[0]}; the plan is {attempt.plan}"
        )
    return ""


def _is_late(arrival: Arrival, attempt: AttemptRow) -> bool:
    """Whether a window that begins with this one is history only: its time is over, or it waited through an outage."""
    return attempt.status == "ended" or arrival.window <= attempt.closed_window or arrival.age_s > REPLAY_S


def _new_window(arrival: Arrival, *, is_open: bool, attempt_id: int, now_s: float) -> dict[str, object]:
    return {
        "attempt_id": attempt_id,
        "window": arrival.window,
        "status": "open" if is_open else "late",
        "first_step": arrival.first_step,
        "num_steps": arrival.num_steps,
        "opened_s": now_s,
        "closed_s": None if is_open else now_s - arrival.age_s,  # of a late one: when it was made
    }


def _insert_bodies(
    connection: Connection,
    taken: Mapping[_Key, Arrival],
    *,
    late: set[tuple[int, int]],
    now_s: float,
) -> list[_Key]:
    """Keys of the rows that were not there before."""
    if not taken:
        return []
    rows = [
        {
            "attempt_id": attempt_id,
            "window": window,
            "rank": rank,
            "received_s": now_s,
            "is_late": (attempt_id, window) in late,
            "body": arrival.body,
        }
        for (attempt_id, window, rank), arrival in sorted(taken.items(), key=itemgetter(0))
    ]
    columns = (RANK_WINDOWS.c.attempt_id, RANK_WINDOWS.c.window, RANK_WINDOWS.c.rank)
    statement = insert_new(connection, RANK_WINDOWS).returning(*columns)
    return [(row[0], row[1], row[2]) for row in connection.execute(statement, rows)]


def _count_in(connection: Connection, inserted: Sequence[_Key], taken: Mapping[_Key, Arrival]) -> None:
    counts: Counter[tuple[int, int]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for key in inserted:
        counts[key[:2]] += 1
        sizes[key[:2]] += len(taken[key].body)
    if not counts:
        return
    statement = (
        update(WINDOWS)
        .where(WINDOWS.c.attempt_id == bindparam("a"), WINDOWS.c.window == bindparam("w"))
        .values(ranks_in=WINDOWS.c.ranks_in + bindparam("n"), num_bytes=WINDOWS.c.num_bytes + bindparam("b"))
    )
    rows = [{"a": key[0], "w": key[1], "n": counts[key], "b": sizes[key]} for key in sorted(counts)]
    connection.execute(statement, rows)


def _highest_steps(inserted: Sequence[_Key], taken: Mapping[_Key, Arrival]) -> dict[int, int]:
    highest: dict[int, int] = {}
    for key in inserted:
        arrival = taken[key]
        last = arrival.first_step + arrival.num_steps - 1
        highest[key[0]] = max(highest.get(key[0], -1), last)
    return highest


def _touch(connection: Connection, highest: Mapping[int, int], *, now_s: float) -> None:
    """Note a sign of life of each attempt, with the highest step seen in it; it wakes a silent one."""
    for attempt_id, step in sorted(highest.items()):
        here = ATTEMPTS.c.id == attempt_id
        connection.execute(update(ATTEMPTS).where(here).values(last_seen_s=now_s))
        awake = {"status": "live", "end_reason": "", "ended_s": None}
        connection.execute(update(ATTEMPTS).where(here, ATTEMPTS.c.status == "silent").values(**awake))
        connection.execute(
            update(ATTEMPTS).where(here, ATTEMPTS.c.highest_step < step).values(highest_step=step)
        )
