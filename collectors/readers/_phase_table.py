"""Each rank's phases out of a table of step times: columns such as `forward_ms` beside one of ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from statistics import median

from argus.collectors.readers import Reading
from argus.collectors.readers._cells import plain, seconds
from argus.collectors.readers._column_names import SECONDS, scale_of, words
from argus.collectors.readers._log_timers import MAX_CELLS, TimerTable, readings_of
from argus.collectors.readers._profile import named_rank, without_rank
from argus.collectors.readers._step_table import Table, is_clock
from argus.collectors.records.layout import MAX_WORLD

FITS = 1.25
"""Phases that add up to more than this part of the step are not parts of it, or in another unit."""

MIN_KNOWN = 0.5
"""A column of which fewer cells are times is of something else, such as the name of a data set."""

RANKS = {"rank", "globalrank", "rankid", "worldrank", "worker", "workerid"}
"""Columns of the job's ranks; those of a host's own (`local_rank`) name nobody."""

_PHASES: Mapping[str, str] = {
    **dict.fromkeys(("data", "dataset", "dataloader", "dataloading", "loader", "fetch"), "data"),
    "h2d": "h2d",
    **dict.fromkeys(("forward", "fwd"), "forward"),
    **dict.fromkeys(("backward", "bwd"), "backward"),
    **dict.fromkeys(("optimizer", "optim", "opt"), "optimizer"),
    **dict.fromkeys(("allreduce", "comm", "communication", "nccl", "sync", "barrier", "wait"), "grad_sync"),
}
"""Saving and evaluation are none: they lie between steps, and one rank may do them for all."""

_BESIDE = {
    *("time", "times", "timing", "duration", "elapsed", "latency", "took", "dt", "dur", "wall", "in", "per"),
    *("step", "batch", "pass", "phase", "phases", "timer", "timers", "avg", "mean", "perf", "model"),
    *("train", "training", "trainer", "compute", "load", "loading", "next", "get"),
    *("grad", "grads", "gradient", "gradients", "all", "reduce"),
}
"""What may stand beside the phase in the name of its time; a loss, a norm or a count is none."""

READER = "step_series"
UNSEEN = "collectives and CPU time of threads: a table of phases holds none"


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Whose row it is, and of which step."""

    step: int
    rank: int
    host: str


def phase_of(name: str) -> str:
    """The phase whose time a column of this name holds, empty if it holds none.

    >>> [phase_of(name) for name in ("fwd_ms", "time/data_wait", "all_reduce_time", "bwd_allreduce", "forward_backward", "data_mb")]
    ['forward', 'data', 'grad_sync', 'grad_sync', '', '']
    """
    said = words(name)
    found = dict.fromkeys(_PHASES[word] for word in said if word in _PHASES)
    if not found and ("all", "reduce") in pairwise(said):
        found = {"grad_sync": None}
    if not all(word in _PHASES or word in _BESIDE or word in SECONDS for word in said):
        return ""
    # Waiting may be called by what is waited for, the reduction of gradients by the pass it is part of.
    first = next((phase for phase in ("data", "grad_sync") if phase in found), "")
    return first or (next(iter(found)) if len(found) == 1 else "")


def phase_readings(table: Table, *, path: Path) -> tuple[list[Reading], str]:
    """Each rank's records, none if the table has no phases of known ranks; and why phases were left out.

    A table may be of one rank, which a column or the file's name tells: see `with_peers`.
    """
    columns, (named, _) = phase_columns(table), named_rank(path)
    rows = _rows(table, named) if columns else []
    if not rows or len(rows) * len(columns) > MAX_CELLS:
        return [], ""
    is_alone = len({row.rank for row in rows}) == 1
    tables = _tables(table, columns, rows)
    if is_alone:
        tables = _numbered(tables)
    shares = [sum(_of_busiest(one).values()) / one.elapsed_ms for one in tables if one.elapsed_ms]
    if shares and median(shares) > FITS:
        shown = ", ".join(repr(name[:40]) for name in columns.values())
        return [], f"{table.file}: {shown} add up to {median(shares):.3g} of the step and are left out"
    fitted = [replace(one, elapsed_ms=_at_least(one)) for one in tables]
    hosts = {row.rank: row.host for row in rows}
    # Whose rank a column tells may be called anything, and is of one run with those beside it.
    is_named = not is_alone or named is not None
    run = (without_rank(path.name.split(".")[0])[:256] if is_named else "") or "table"
    readings = readings_of(fitted, source=table.file, reader=READER, unseen=(UNSEEN,), run=run, least=1)
    whole = [_on_host(reading, hosts[reading.records.layout.rank]) for reading in readings]
    return [replace(one, is_world_known=not is_alone, is_rank_named=is_alone) for one in whole], ""


def with_peers(files: Sequence[tuple[str, Sequence[Reading]]]) -> list[tuple[str, Sequence[Reading]]]:
    """The files without the phases of a rank whose run has no other one: its step times are what is left to judge."""
    ranks: dict[str, set[int]] = defaultdict(set)
    for _, readings in files:
        for one in filter(_is_of_table, readings):
            ranks[one.records.layout.run].add(one.records.layout.rank)
    return [
        (name, [one for one in readings if not _is_of_table(one) or len(ranks[one.records.layout.run]) > 1])
        for name, readings in files
    ]


def _is_of_table(reading: Reading) -> bool:
    return reading.records.layout.source == READER and len(reading.records.steps) > 0


def phase_columns(table: Table) -> dict[int, str]:
    """Columns of phases with their names."""
    found = {}
    for column, name in enumerate(table.names):
        if table.kinds[column] == "other" and phase_of(name):
            cells = table.cells(column)
            known = sum(seconds(cell, 1.0) >= 0 for cell in cells)
            if known >= MIN_KNOWN * len(cells) > 0:
                found[column] = name
    return found


def _rows(table: Table, named: int | None) -> list[_Row]:
    """Who each row is of, without a column the rank that the file is `named` after; empty where that is not told."""
    owners = table.of_kind("whose")
    whole = {column: "".join(words(table.names[column])) for column in owners}
    ranks = [column for column in owners if whole[column] in RANKS]
    others = [column for column in owners if column not in ranks and not whole[column].startswith("host")]
    if len(ranks) > 1 or any(len(set(table.cells(column))) > 1 for column in others):
        return []
    of_file = math.nan if named is None else float(named)
    numbers = [plain(cell) for cell in table.cells(ranks[0])] if ranks else [of_file] * len(table.rows)
    if not all(number >= 0 and number < MAX_WORLD and number == int(number) for number in numbers):
        return []
    hosts = [table.cells(column) for column in owners if whole[column].startswith("host")]
    places = [cell.strip() for cell in hosts[0]] if hosts else [""] * len(numbers)
    told = table.steps()
    seen: dict[int, count[int]] = defaultdict(count)
    steps = told or [next(seen[int(number)]) for number in numbers]
    if not all(math.isfinite(step) and 0 <= step < 1e15 for step in steps):
        return []
    return [
        _Row(step=int(step), rank=int(number), host=host)
        for step, number, host in zip(steps, numbers, places, strict=True)
    ]


def _tables(table: Table, columns: Mapping[int, str], rows: Sequence[_Row]) -> list[TimerTable]:
    """One table a step, in their order; of two rows for one rank and step the later one counts."""
    cells: dict[int, dict[str, dict[int, float]]] = {}
    for column, name in columns.items():
        scale = scale_of(name) * 1e3
        for row, cell in zip(rows, table.cells(column), strict=True):
            value_ms = seconds(cell, scale)
            if value_ms >= 0:
                cells.setdefault(row.step, {}).setdefault(name, {})[row.rank] = value_ms
    durations = table.of_kind("duration") or [
        one for one in table.of_kind("time") if not is_clock(table, one)
    ]
    lasted: dict[int, list[float]] = defaultdict(list)
    if len(durations) == 1:
        scale = scale_of(table.names[durations[0]]) * 1e3
        for row, cell in zip(rows, table.cells(durations[0]), strict=True):
            if (value_ms := seconds(cell, scale)) > 0:
                lasted[row.step].append(value_ms)
    phases = {name: phase_of(name) for name in columns.values()}
    return [
        TimerTable(
            iteration=step,
            elapsed_ms=median(lasted[step]) if step in lasted else None,
            cells=own,
            phases=phases,
        )
        for step, own in sorted(cells.items())
    ]


def _numbered(tables: Sequence[TimerTable]) -> list[TimerTable]:
    """The tables by their own steps, for other ranks' files may begin elsewhere; every so many steps count as one."""
    steps = [table.iteration for table in tables]
    apart = math.gcd(*(b - a for a, b in pairwise(steps))) or 1
    return [replace(table, step=step // apart) for table, step in zip(tables, steps, strict=True)]


def _of_busiest(table: TimerTable) -> dict[str, float]:
    """What the busiest rank spent, by phase."""
    ranks = {rank for cells in table.cells.values() for rank in cells}
    spent = [{name: cells.get(rank, 0.0) for name, cells in table.cells.items()} for rank in ranks]
    return max(spent, key=lambda one: sum(one.values()), default={})


def _at_least(table: TimerTable) -> float | None:
    """The step's time, not less than what a rank spent in its phases: loading may lie before it."""
    return None if table.elapsed_ms is None else max(table.elapsed_ms, sum(_of_busiest(table).values()))


def _on_host(reading: Reading, host: str) -> Reading:
    layout = replace(reading.records.layout, host=host)
    return replace(reading, records=replace(reading.records, layout=layout))
