"""Cut a rank's records into windows of whole steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from argus.collectors.host.compress import compress
from argus.collectors.host.kernel_room import NO_ROOM, pack_kernels
from argus.collectors.host.use_track import equipped_from
from argus.collectors.records.events import STRING_COLUMNS, RankRecords, Rows
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import PHASE_CELL, RankWindow

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "cells": ("phase", "native"),
    "details": ("phase", "native"),
    "collectives": STRING_COLUMNS["collectives"],
    "events": STRING_COLUMNS["events"],
}
"""String columns of a window's parts."""

MAX_DETAILS = 2048
"""Cells of inner phases in one window; a rank that names thousands of them keeps the longest."""

UNOBSERVED_NS = -1
"""CPU time of a cell of which one phase did not observe it."""

UNKNOWN_NAME = (1 << 32) - 1
"""A string number no table reaches: `RankWindow.name` says "?"."""


def cut(records: RankRecords, plan: WindowPlan) -> tuple[RankWindow, ...]:
    """Every window of `plan` that holds a step of `records`, in order, also where steps are missing."""
    if not len(records.steps):
        return ()
    indices = sorted({plan.index(int(step)) for step in np.unique(records.steps["step"])})
    windows = (cut_window(records, plan, index) for index in indices)
    return tuple(with_looks(window, records) for window in windows)


def with_looks(window: RankWindow, records: RankRecords) -> RankWindow:
    """The window with what the records say of its host."""
    if not records.looks:
        return window
    return equipped_from(window, records.looks, device=records.layout.device)


def cut_window(records: RankRecords, plan: WindowPlan, index: int) -> RankWindow:
    """Window `index` of one rank; the drop counts are all of `records`."""
    first, end = plan.bounds(index)
    layout, phases = records.layout, _within(records.phases, first, end)
    window = RankWindow(
        run=layout.run,
        attempt=layout.attempt,
        rank=layout.rank,
        window=index,
        first_step=first,
        num_steps=end - first,
        host=layout.host,
        names=records.names,
        steps=_within(records.steps, first, end),
        cells=phase_cells(phases[phases["depth"] == 0]),
        details=detail_cells(phases[phases["depth"] > 0]),
        collectives=_within(records.collectives, first, end),
        events=_within(records.events, first, end),
        dropped=records.dropped,
        unseen=records.unseen,
    )
    return _with_kernels(compact(window), _within(records.kernels, first, end), names=records.names)


def _with_kernels(window: RankWindow, kernels: Rows, *, names: Sequence[str]) -> RankWindow:
    """The window with its kernels as a blob of this rank alone, with all their names; none if it has none."""
    if not len(kernels):
        return window
    summary = compress(kernels, names=names, rank=window.rank)
    (((packed,), blob),) = pack_kernels([summary])
    lost = summary.events - packed.events
    return replace(window.with_loss(NO_ROOM, lost) if lost else window, kernels=blob)


def compact(window: RankWindow) -> RankWindow:
    """The same window with a string table of only the names it uses, in their old order."""
    count = len(window.names)
    ids = [getattr(window, part)[column] for part, columns in COLUMNS.items() for column in columns]
    used = np.unique(np.concatenate([*ids, np.zeros(1, np.uint32)]))
    used = used[used < count]
    return replace(
        window,
        names=tuple(window.names[i] for i in used),
        cells=_renumbered(window.cells, COLUMNS["cells"], used=used, count=count),
        details=_renumbered(window.details, COLUMNS["details"], used=used, count=count),
        collectives=_renumbered(window.collectives, COLUMNS["collectives"], used=used, count=count),
        events=_renumbered(window.events, COLUMNS["events"], used=used, count=count),
    )


def _renumbered(rows: Rows, columns: Sequence[str], *, used: NDArray[np.uint32], count: int) -> Rows:
    rows = rows.copy()
    for column in columns:
        rows[column] = np.where(rows[column] < count, np.searchsorted(used, rows[column]), UNKNOWN_NAME)
    return rows


def phase_cells(rows: Rows) -> Rows:
    """Outermost phases added up per (name, step). Returns PHASE_CELL rows."""
    return _cells(rows, names=rows["name"].astype(np.int64))


def detail_cells(rows: Rows) -> Rows:
    """Inner phases added up per (name, native, step), the largest `MAX_DETAILS`. Returns PHASE_CELL rows."""
    pairs = rows["name"].astype(np.int64) << 32 | rows["native"].astype(np.int64)
    cells = _cells(rows, names=np.unique(pairs, return_inverse=True)[1].astype(np.int64))
    if len(cells) <= MAX_DETAILS:
        return cells
    return cells[np.sort(np.argsort(-cells["sum_ns"], kind="stable")[:MAX_DETAILS])]


def _cells(rows: Rows, *, names: NDArray[np.int64]) -> Rows:
    if not len(rows):
        return np.empty(0, PHASE_CELL)
    # Longest first: the native name of a cell is that of its longest phase.
    order = np.argsort(-rows["dur_ns"], kind="stable")
    rows, names = rows[order], names[order]
    steps = rows["step"] - rows["step"].min()
    key = names * (int(steps.max()) + 1) + steps
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    cells = np.zeros(len(first), PHASE_CELL)
    cells["phase"], cells["step"] = rows["name"][first], rows["step"][first]
    cells["native"], cells["clock"] = rows["native"][first], rows["clock"][first]
    np.add.at(cells["count"], inverse, 1)
    np.maximum.at(cells["max_ns"], inverse, rows["dur_ns"])
    for column, source in (("sum_ns", "dur_ns"), ("wait_ns", "wait_ns"), ("cpu_ns", "cpu_ns")):
        np.add.at(cells[column], inverse, rows[source])
    cells["cpu_ns"][inverse[rows["cpu_ns"] < 0]] = UNOBSERVED_NS
    return cells


def _within(rows: Rows, first: int, end: int) -> Rows:
    return rows[(rows["step"] >= first) & (rows["step"] < end)]
