"""The life of each rank between its calls: own work since it was last released, and what it stood still for.

Everything here is read off the rank's own clock, and every call of the rank counts, also one that is of no use
otherwise because another member is missing: time spent in it is no work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.ordering import packed, stable_order
from argus.analytics.recalled import recalled
from argus.analytics.window import Bools, Floats, Ints, Window


@dataclass(frozen=True, kw_only=True)
class Lives:
    """(row,) of `Window.collectives`: `work_s` = time since the last release, NaN at first; `synced` = the rank
    stood still for the call; `place` = its number among the rank's calls of the step. `order` = usable rows by
    rank, step and entry, None if these are all rows as they lie."""

    work_s: Floats
    synced: Bools
    place: Ints
    order: Ints | None


def lives_of(window: Window, sane: Bools) -> Lives:
    """Lives of all ranks; rows that are not `sane` (row,) have no times and are passed over."""
    rows, column = window.collectives, window.collectives.step - window.first_step
    steps = recalled(window.topology, "lives", (rows.rank, column), lambda: _steps(rows.rank, column))
    order, steps = _order(window, sane, steps)
    entry, end, blocked = rows.entry_s, rows.end_s, rows.blocked_s
    if order is not None:  # millions of rows are not moved about where they lie right already
        entry, end, blocked = entry[order], end[order], blocked[order]
    if not np.isfinite(blocked).all():
        blocked = np.nan_to_num(blocked)
    has_blocked = blocked > 0
    if (
        not has_blocked.any()
    ):  # nobody says who did: who enters its next call before this one ended did not wait
        has_blocked = np.append(entry[1:], np.inf)[: len(entry)] >= end
    stood = steps.is_last | has_blocked
    free = np.maximum(entry + blocked, np.where(stood, end, -np.inf))
    released = np.where(steps.is_new_rank, np.nan, np.roll(free, 1))
    # Two calls entered in one instant come in either order: the second was no work, whichever it is.
    own = np.maximum(entry - released, 0.0)
    if order is None:
        return Lives(work_s=own, synced=stood, place=steps.place, order=None)
    work, synced = np.full(len(sane), np.nan), np.zeros(len(sane), np.bool_)
    place = np.zeros(len(sane), np.int64)
    work[order], synced[order], place[order] = own, stood, steps.place
    return Lives(work_s=work, synced=synced, place=place, order=order)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Steps:
    """Rows by rank and step as they lie: the first of a rank, the last of a rank's step, the number in it; and, from
    the second row on, whether it lies behind the row before whenever it was entered, and whether it may. (row,)"""

    is_new_rank: Bools
    is_last: Bools
    place: Ints
    is_behind: Bools
    is_same: Bools


def _steps(rank: Ints, step: Ints) -> _Steps:
    num, index = len(rank), np.arange(len(rank))
    new_rank = _is_new(rank)
    new_step = new_rank | _is_new(step)
    same_rank = ~new_rank[1:]
    return _Steps(
        is_new_rank=new_rank,
        is_last=np.append(new_step[1:], True)[:num],
        place=index - np.maximum.accumulate(np.where(new_step, index, 0)),
        is_behind=(rank[1:] > rank[:-1]) | (same_rank & (step[1:] > step[:-1])),
        is_same=~new_step[1:],
    )


def _is_new(values: Ints) -> Bools:
    """Rows that differ from the row before, the first always. (row,)"""
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def _order(window: Window, sane: Bools, steps: _Steps) -> tuple[Ints | None, _Steps]:
    """Usable rows by rank, step and entry, and their steps; None if these are all rows as they lie, whose `steps` are
    known, for collectors mostly send them so."""
    rows = window.collectives
    usable = None if sane.all() else np.flatnonzero(sane)
    rank, step, entry = rows.rank, rows.step, rows.entry_s
    if usable is not None:
        rank, step, entry = rank[usable], step[usable], entry[usable]
        steps = _steps(rank, step)
    if (steps.is_behind | (steps.is_same & (entry[1:] >= entry[:-1]))).all():
        return usable, steps
    ticks = np.rint((entry - entry.min()) * 1e9).astype(np.int64)
    order = stable_order(packed(rank, step, ticks))
    return order if usable is None else usable[order], _steps(rank[order], step[order])
