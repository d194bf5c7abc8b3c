"""Cut a rank's records into windows of whole steps."""

from __future__ import annotations

import numpy as np

from argus.collectors.records.events import RankRecords, Rows
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import PHASE_CELL, RankWindow


def cut(records: RankRecords, plan: WindowPlan) -> tuple[RankWindow, ...]:
    """Every window of `plan` that holds a step of `records`, in order, also where steps are missing."""
    if not len(records.steps):
        return ()
    indices = sorted({plan.index(int(step)) for step in np.unique(records.steps["step"])})
    return tuple(cut_window(records, plan, index) for index in indices)


def cut_window(records: RankRecords, plan: WindowPlan, index: int) -> RankWindow:
    """Window `index` of one rank; the drop counts are all of `records`."""
    first, end = plan.bounds(index)
    layout = records.layout
    return RankWindow(
        run=layout.run,
        attempt=layout.attempt,
        rank=layout.rank,
        window=index,
        first_step=first,
        num_steps=end - first,
        host=layout.host,
        names=records.names,
        steps=_within(records.steps, first, end),
        cells=phase_cells(_within(records.phases, first, end)),
        collectives=_within(records.collectives, first, end),
        events=_within(records.events, first, end),
        dropped=records.dropped,
        unseen=records.unseen,
    )


def phase_cells(phases: Rows) -> Rows:
    """Outermost phases added up per (name, step). Returns PHASE_CELL rows."""
    rows = phases[phases["depth"] == 0]
    if not len(rows):
        return np.empty(0, PHASE_CELL)
    key = np.stack([rows["name"].astype(np.int64), rows["step"]], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    cells = np.zeros(len(first), PHASE_CELL)
    cells["phase"], cells["step"] = rows["name"][first], rows["step"][first]
    cells["native"], cells["clock"] = rows["native"][first], rows["clock"][first]
    np.add.at(cells["count"], inverse, 1)
    np.maximum.at(cells["max_ns"], inverse, rows["dur_ns"])
    for column, source in (("sum_ns", "dur_ns"), ("wait_ns", "wait_ns"), ("cpu_ns", "cpu_ns")):
        np.add.at(cells[column], inverse, rows[source])
    return cells


def _within(rows: Rows, first: int, end: int) -> Rows:
    return rows[(rows["step"] >= first) & (rows["step"] < end)]
