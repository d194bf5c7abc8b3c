"""Windows of all ranks of a stage at once, as their hosts would upload them: what `cut` makes of the records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from argus.analytics.window import Bools, Ints
from argus.collectors.records.events import Rows
from argus.collectors.records.summary import PHASE_CELL, RankWindow
from argus.evals.simulator.emit import (
    Emitter,
    Table,
    collective_rows,
    event_rows,
    kept,
    phase_rows,
    step_rows,
)
from argus.evals.simulator.kernel_emit import packed_kernels


def stage_windows(source: Emitter, *, index: int, num_steps: int) -> Iterator[RankWindow]:
    """The window `index` of every rank of the stage that reports, in order; all its steps must have ended.

    `num_steps` is what the plan gives the window; the job may end before.
    """
    steps, phases = step_rows(source), phase_rows(source)
    cells, details = _cells(phases, depth=0), _cells(phases, depth=1)
    collectives, events = collective_rows(source), event_rows(source)
    first = source.ranks.start
    use = _use(source, steps)
    for row in range(len(steps[0])):
        rank = first + row
        mine = kept(steps, row)
        if rank in source.job.missing or not len(mine):
            continue
        yield RankWindow(
            run=source.job.run,
            attempt=source.job.attempt,
            rank=rank,
            window=index,
            first_step=source.times.steps.start,
            num_steps=num_steps,
            host=source.job.told_host(rank),
            names=source.names.of_rank(rank),
            steps=mine,
            cells=kept(cells, row),
            details=kept(details, row),
            collectives=kept(collectives, row),
            events=kept(events, row),
            dropped=_dropped(source, rank),
            kernels=packed_kernels(source, row, calls=collectives),
            use=use[row],
        )


def _use(source: Emitter, steps: Table) -> list[dict[str, float]]:
    """What the ranks' hosts measured from the first step that was kept to the last; {} of a rank without any."""
    there = steps[1][..., 0]
    some = np.flatnonzero(there.any(axis=1))
    first = source.times.steps.start + there[some].argmax(axis=1)
    last = source.times.steps.stop - 1 - there[some][:, ::-1].argmax(axis=1)
    rates = source.host_use.rates(source.ranks.start + some, first=first, last=last)
    found = dict(zip(some.tolist(), rates, strict=True))
    return [found.get(row, {}) for row in range(len(there))]


def _dropped(source: Emitter, rank: int) -> dict[str, int]:
    num = int(source.lost[:, rank].sum())
    return {"ring_full": num} if num else {}


def _cells(table: Table, *, depth: int) -> Table:
    """Phases of one depth added up per name and step: (rank, name, step), names in order of their number."""
    rows, there = table
    there = there & (rows["depth"] == depth)
    names = np.unique(rows["name"][there])
    cells = np.zeros((len(rows), len(names), rows.shape[1]), PHASE_CELL)
    present = np.zeros(cells.shape, np.bool_)
    for n, name in enumerate(names):
        _fill(cells[:, n], present[:, n], rows, there & (rows["name"] == name), name=int(name))
    return cells, present


def _fill(cells: Rows, present: Bools, rows: Rows, mine: Bools, *, name: int) -> None:
    """Cells (rank, step) of one name from rows (rank, step, row)."""
    duration: Ints = np.where(mine, rows["dur_ns"], -1)
    longest = duration.argmax(axis=2)[..., None]
    cells["phase"], cells["step"] = name, rows["step"][..., 0]
    for column in ("native", "clock"):
        cells[column] = np.take_along_axis(rows[column], longest, axis=2)[..., 0]
    cells["count"] = mine.sum(axis=2)
    cells["max_ns"] = np.maximum(duration.max(axis=2), 0)
    for column, source in (("sum_ns", "dur_ns"), ("wait_ns", "wait_ns"), ("cpu_ns", "cpu_ns")):
        cells[column] = np.where(mine, rows[source], 0).sum(axis=2)
    present[:] = mine.any(axis=2)
