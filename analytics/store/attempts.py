"""What the store holds of one attempt as a whole: its windows' numbers and their kernels, for comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from argus.analytics.incident import Incident
from argus.analytics.numbers import WindowNumbers, read_steps
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.kernel_tables import KERNEL_BLOBS
from argus.analytics.store.kernels import blobs_of, used_names
from argus.analytics.store.queries import Which
from argus.analytics.store.relaunch import is_earlier_launch
from argus.analytics.store.tables import ATTEMPTS, INCIDENTS, WINDOWS
from argus.analytics.window import Floats


@dataclass(frozen=True, kw_only=True)
class KernelWindow:
    """The packed kernels of one window, with the names they do not bring along."""

    blobs: tuple[bytes, ...]
    names: Mapping[int, str]
    num_steps: int


def numbers_of(
    connection: Connection, attempt_id: int, *, first: int = 0, limit: int, newest: bool = True
) -> list[WindowNumbers]:
    """Numbers of up to `limit` analysed windows from index `first` on, the newest or the oldest, in order."""
    here = (
        WINDOWS.c.attempt_id == attempt_id,
        WINDOWS.c.window >= first,
        WINDOWS.c.numbers.is_not(None),
    )
    order = WINDOWS.c.window.desc() if newest else WINDOWS.c.window
    rows = connection.execute(select(WINDOWS.c.numbers).where(*here).order_by(order).limit(limit)).scalars()
    found = [WindowNumbers.from_bytes(row) for row in rows]
    return found[::-1] if newest else found


def kernel_window(connection: Connection, attempt_id: int) -> KernelWindow | None:
    """The last window of an attempt that has kernels; None if none has."""
    newest = (
        select(KERNEL_BLOBS.c.window)
        .where(KERNEL_BLOBS.c.attempt_id == attempt_id)
        .order_by(KERNEL_BLOBS.c.window.desc())
        .limit(1)
    )
    window = connection.execute(newest).scalar_one_or_none()
    if window is None:
        return None
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == window)
    num_steps = connection.execute(select(WINDOWS.c.num_steps).where(*here)).scalar_one_or_none()
    blobs = blobs_of(connection, attempt_id, window)
    return KernelWindow(
        blobs=tuple(blobs), names=used_names(connection, blobs), num_steps=int(num_steps or 1)
    )


def attempt_before(connection: Connection, which: Which) -> Which | None:
    """The attempt before this one: the run's last, else its last launch under the same name; None without."""
    same_run = (ATTEMPTS.c.run == which.run, ATTEMPTS.c.attempt < which.attempt)
    launched = (is_earlier_launch(which.run), ATTEMPTS.c.id < which.id)
    for here, order in ((same_run, ATTEMPTS.c.attempt), (launched, ATTEMPTS.c.id)):
        statement = select(ATTEMPTS).where(*here).order_by(order.desc()).limit(1)
        row = connection.execute(statement).one_or_none()
        if row is not None:
            return Which(id=row.id, run=row.run, attempt=row.attempt)
    return None


def sampled_steps(
    connection: Connection, attempt_id: int, *, limit: int
) -> tuple[list[tuple[int, int, Floats]], int]:
    """Up to `limit` analysed windows spread evenly: first step, steps, the job's step times; how many there are."""
    chosen, total = _spread(connection, attempt_id, limit=limit)
    rows = _rows(connection, attempt_id, chosen)
    return [(row.first_step, row.num_steps, read_steps(row.numbers)[2]) for row in rows], total


def sampled_numbers(connection: Connection, attempt_id: int, *, limit: int) -> list[WindowNumbers]:
    """Numbers of up to `limit` analysed windows spread evenly."""
    chosen, _ = _spread(connection, attempt_id, limit=limit)
    return [WindowNumbers.from_bytes(row.numbers) for row in _rows(connection, attempt_id, chosen)]


def _spread(connection: Connection, attempt_id: int, *, limit: int) -> tuple[list[int], int]:
    here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.numbers.is_not(None))
    statement = select(WINDOWS.c.window).where(*here).order_by(WINDOWS.c.window)
    indices = list(connection.execute(statement).scalars())
    return indices[:: max(-(-len(indices) // limit), 1)], len(indices)


def _rows(connection: Connection, attempt_id: int, windows: Iterable[int]) -> Iterator[Row[Any, Any, Any]]:
    """One row at a time: all of a long run at once would not fit into memory."""
    columns = (WINDOWS.c.first_step, WINDOWS.c.num_steps, WINDOWS.c.numbers)
    for window in windows:
        here = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == window)
        yield connection.execute(select(*columns).where(*here)).one()


def incidents_of(connection: Connection, attempt_id: int) -> list[Incident]:
    """All incidents of an attempt, open or not, oldest first."""
    here = INCIDENTS.c.attempt_id == attempt_id
    rows = connection.execute(select(INCIDENTS).where(here).order_by(INCIDENTS.c.opened_s, INCIDENTS.c.id))
    return [read_incident(row._mapping) for row in rows]
