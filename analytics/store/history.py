"""GPUs over runs: their days and the bouts of windows in which they were bad, kept for months."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from sqlalchemy import ColumnElement, Connection, RowMapping, case, delete, func, select

from argus.analytics.history import UnitDays
from argus.analytics.numbers import WindowNumbers
from argus.analytics.outside import unit_of
from argus.analytics.recurrence import Bout
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import add_up, upsert
from argus.analytics.store.history_tables import BOUTS, ROLLED, UNIT_DAYS
from argus.analytics.store.intake import CHUNK
from argus.analytics.store.queries import Found, Json
from argus.analytics.store.relaunch import is_earlier_launch, run_of_launches
from argus.analytics.store.tables import ATTEMPTS, WINDOWS
from argus.analytics.symptom import PhaseExcess, RankSymptom
from argus.topology.layout import Topology

Unit = tuple[str, str]
"""Host and device."""


@dataclass(frozen=True, kw_only=True)
class Rolled:
    """How far an attempt is in the history: its last window, and when its kernels were last added."""

    window: int = -1
    kernels_s: float = 0.0


def rolled(connection: Connection, attempt_id: int) -> Rolled:
    """How far the attempt is."""
    row = connection.execute(select(ROLLED).where(ROLLED.c.attempt_id == attempt_id)).one_or_none()
    return Rolled() if row is None else Rolled(window=row.window, kernels_s=row.kernels_s)


def windows_after(
    connection: Connection, attempt_id: int, *, window: int, limit: int
) -> list[tuple[int, float, WindowNumbers]]:
    """Analysed windows after one: index, when it was analysed, its numbers; in order."""
    here = (
        WINDOWS.c.attempt_id == attempt_id,
        WINDOWS.c.window > window,
        WINDOWS.c.status == "analysed",  # late ones are added one by one, see api.late
        WINDOWS.c.numbers.is_not(None),
    )
    columns = (WINDOWS.c.window, WINDOWS.c.analysed_s, WINDOWS.c.numbers)
    rows = connection.execute(select(*columns).where(*here).order_by(WINDOWS.c.window).limit(limit))
    return [(row.window, row.analysed_s, WindowNumbers.from_bytes(row.numbers)) for row in rows]


def add_days(connection: Connection, attempt_id: int, parts: Iterable[UnitDays], *, mark: Rolled) -> None:
    """Add rows to the history and remember how far the attempt is: both or neither."""
    add_parts(connection, parts)
    row = {"attempt_id": attempt_id, "window": mark.window, "kernels_s": mark.kernels_s}
    connection.execute(upsert(connection, ROLLED, set_=("window", "kernels_s")), [row])


def add_parts(connection: Connection, parts: Iterable[UnitDays]) -> None:
    """Add rows to the history."""
    for part in parts:
        rows = [
            {
                "host": part.units[unit][0],
                "device": part.units[unit][1],
                "subject": part.subjects[subject],
                "day": day,
                "num": num,
                "sum_log": sum_log,
            }
            for unit, subject, day, num, sum_log in zip(
                *(getattr(part, name).tolist() for name in ("unit", "subject", "day", "num", "sum_log")),
                strict=True,
            )
        ]
        if rows:
            connection.execute(add_up(connection, UNIT_DAYS, columns=("num", "sum_log")), rows)


def risen(
    connection: Connection, *, last_day: int, num_days: int, least: float, limit: int
) -> tuple[list[tuple[str, str, str]], int]:
    """(host, device, subject) whose last days lie above the days before by `least`, those that rose most first.

    Compares the later half of `num_days` days with the earlier one; with it comes how many were compared.
    """
    late = UNIT_DAYS.c.day > last_day - num_days // 2
    sums = [
        func.sum(case((half, column), else_=0.0))
        for half in (late, ~late)
        for column in (UNIT_DAYS.c.sum_log, UNIT_DAYS.c.num)
    ]
    rise = (sums[0] / sums[1] - sums[2] / sums[3]).label("rise")
    compared = (
        select(UNIT_DAYS.c.host, UNIT_DAYS.c.device, UNIT_DAYS.c.subject, rise)
        .where(UNIT_DAYS.c.day > last_day - num_days, UNIT_DAYS.c.day <= last_day)
        .group_by(UNIT_DAYS.c.host, UNIT_DAYS.c.device, UNIT_DAYS.c.subject)
        .having(sums[1] > 0, sums[3] > 0)
        .subquery()
    )
    total = connection.execute(select(func.count()).select_from(compared)).scalar_one()
    order = (compared.c.rise.desc(), compared.c.host, compared.c.device, compared.c.subject)
    rows = connection.execute(select(compared).where(compared.c.rise >= least).order_by(*order).limit(limit))
    return [(row.host, row.device, row.subject) for row in rows], int(total)


def first_day(connection: Connection, *, since_day: int) -> int | None:
    """The first day since one that has rows; None if none has."""
    first = select(func.min(UNIT_DAYS.c.day)).where(UNIT_DAYS.c.day >= since_day)
    found = connection.execute(first).scalar_one()
    return None if found is None else int(found)


def day_matrix(
    connection: Connection, units: Sequence[Unit], *, last_day: int, num_days: int
) -> dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Mean logarithm by subject as (unit, day) over the days up to `last_day`, NaN = not seen."""
    place = {unit: index for index, unit in enumerate(units)}
    hosts = sorted({host for host, _ in units})
    found: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]] = {}
    for start in range(0, len(hosts), CHUNK):
        here = (
            UNIT_DAYS.c.host.in_(hosts[start : start + CHUNK]),
            UNIT_DAYS.c.day > last_day - num_days,
            UNIT_DAYS.c.day <= last_day,
        )
        for row in connection.execute(select(UNIT_DAYS).where(*here)):
            index = place.get((row.host, row.device))
            if index is None:
                continue
            if row.subject not in found:
                found[row.subject] = np.full((len(units), num_days), np.nan)
            found[row.subject][index, row.day - last_day + num_days - 1] = row.sum_log / row.num
    return found


def list_days(
    connection: Connection,
    *,
    host: str | None,
    device: str | None,
    subject: str | None,
    since_day: int,
    limit: int,
    offset: int,
) -> Found:
    """Rows of the history, the latest day first; `ratio` is own time over the peers'."""
    wanted: list[ColumnElement[bool]] = [UNIT_DAYS.c.day >= since_day]
    wanted += [UNIT_DAYS.c.host == host] if host is not None else []
    wanted += [UNIT_DAYS.c.device == device] if device is not None else []
    wanted += [UNIT_DAYS.c.subject == subject] if subject is not None else []
    total = connection.execute(select(func.count()).select_from(UNIT_DAYS).where(*wanted)).scalar_one()
    order = (UNIT_DAYS.c.day.desc(), UNIT_DAYS.c.host, UNIT_DAYS.c.device, UNIT_DAYS.c.subject)
    rows = connection.execute(select(UNIT_DAYS).where(*wanted).order_by(*order).limit(limit).offset(offset))
    return Found(items=[_day(row._mapping) for row in rows], total=total)


def _day(row: RowMapping) -> Json:
    names = ("host", "device", "subject", "day")
    ratio = float(np.exp(row["sum_log"] / row["num"]))
    return {**{name: row[name] for name in names}, "windows": row["num"], "ratio": ratio}


def save_bouts(connection: Connection, attempt_id: int, bouts: Sequence[Bout], *, topology: Topology) -> None:
    """Store bouts that began or grew; those of earlier attempts are there already."""
    rows = []
    for bout in bouts:
        host, device = unit_of(topology, bout.rank)
        names = ("rank", "first_window", "last_window", "since_s", "until_s", "num")
        rows.append(
            {
                **{name: getattr(bout, name) for name in names},
                "attempt_id": attempt_id,
                "host": host,
                "device": device,
                "body": dump(asdict(bout.symptom)),
            }
        )
    if rows:
        growing = ("last_window", "until_s", "num", "body")
        connection.execute(upsert(connection, BOUTS, set_=growing), rows)


def bouts_since(
    connection: Connection, attempt_id: int, *, topology: Topology, since_s: float
) -> tuple[Bout, ...]:
    """Bouts of the attempt's GPUs since a time, also of other attempts and runs, on the ranks of this one."""
    rank_of = {unit_of(topology, rank): rank for rank in topology.ranks if topology.host_of(rank)}
    hosts = sorted({host for host, _ in rank_of})
    attempt = {row.id: row.attempt for row in connection.execute(select(ATTEMPTS.c.id, ATTEMPTS.c.attempt))}
    found = []
    for start in range(0, len(hosts), CHUNK):
        here = (BOUTS.c.host.in_(hosts[start : start + CHUNK]), BOUTS.c.until_s > since_s)
        for row in connection.execute(select(BOUTS).where(*here)):
            rank = rank_of.get((row.host, row.device))
            if rank is not None:
                is_mine = row.attempt_id == attempt_id
                found.append(_bout(row._mapping, rank, attempt=attempt[row.attempt_id] if is_mine else -1))
    return tuple(sorted(found, key=lambda bout: (bout.until_s, bout.rank, bout.first_window)))


def _bout(row: RowMapping, rank: int, *, attempt: int) -> Bout:
    """A stored bout on the rank that has its GPU now; steps and windows of another attempt mean nothing here."""
    raw = load(row["body"])
    symptom = RankSymptom(
        **{
            **raw,
            "rank": rank,
            "signals": frozenset(raw["signals"]),
            "phases": tuple(PhaseExcess(**part) for part in raw["phases"]),
            "victims": tuple(raw["victims"]),
            "findings": tuple(raw["findings"]),
        }
    )
    if attempt < 0:
        symptom = replace(symptom, first_step=0, onset_step=0, findings=(), victims=())
    names = ("first_window", "last_window", "since_s", "until_s", "num")
    return Bout(rank=rank, attempt=attempt, symptom=symptom, **{name: row[name] for name in names})


def other_runs(connection: Connection, run: str, units: Sequence[Unit]) -> dict[Unit, int]:
    """In how many other runs each GPU was bad, as far as the history goes; those in none are left out.

    Launches of a run again are that run: what it does to a GPU, it does in each of them.
    """
    found: dict[Unit, int] = {}
    hosts = sorted({host for host, _ in units})
    for start in range(0, len(hosts), CHUNK):
        statement = (
            select(BOUTS.c.host, BOUTS.c.device, func.count(func.distinct(run_of_launches())))
            .join(ATTEMPTS, ATTEMPTS.c.id == BOUTS.c.attempt_id)
            .where(
                BOUTS.c.host.in_(hosts[start : start + CHUNK]), ATTEMPTS.c.run != run, ~is_earlier_launch(run)
            )
            .group_by(BOUTS.c.host, BOUTS.c.device)
        )
        found.update({(host, device): num for host, device, num in connection.execute(statement)})
    return {unit: found[unit] for unit in units if unit in found}


def offenders(connection: Connection, *, since_s: float, limit: int, offset: int) -> Found:
    """GPUs by the number of runs they were bad in since a time, then by bad windows."""
    runs = func.count(func.distinct(run_of_launches())).label("runs")
    windows = func.sum(BOUTS.c.num).label("windows")
    statement = (
        select(
            BOUTS.c.host,
            BOUTS.c.device,
            runs,
            func.count().label("bouts"),
            windows,
            func.min(BOUTS.c.since_s).label("since_s"),
            func.max(BOUTS.c.until_s).label("until_s"),
        )
        .join(ATTEMPTS, ATTEMPTS.c.id == BOUTS.c.attempt_id)
        .where(BOUTS.c.until_s > since_s)
        .group_by(BOUTS.c.host, BOUTS.c.device)
    )
    total = connection.execute(select(func.count()).select_from(statement.subquery())).scalar_one()
    order = (runs.desc(), windows.desc(), BOUTS.c.host, BOUTS.c.device)
    rows = connection.execute(statement.order_by(*order).limit(limit).offset(offset))
    return Found(items=[dict(row._mapping) for row in rows], total=total)


def forget_history(connection: Connection, *, before_s: float, before_day: int) -> None:
    """Drop what is older."""
    connection.execute(delete(UNIT_DAYS).where(UNIT_DAYS.c.day < before_day))
    connection.execute(delete(BOUTS).where(BOUTS.c.until_s < before_s))
