"""Step times out of tables of text: columns of durations, of rates, of clocks."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from argus.collectors.readers import ReaderError
from argus.collectors.readers._cells import is_missing, moment, plain, resolution, seconds, with_points
from argus.collectors.readers._column_names import Kind, kind_of, scale_of, unit_of_rate
from argus.collectors.readers._step_lines import grid
from argus.collectors.records.series import StepSeries

MAX_SERIES = 10_000
MIN_CLOCK = 8
"""Values that must grow before a column called `time` counts as a clock."""

EPOCH_S = 1e8
"""No step takes three years: what is larger is the time since 1970."""

MIN_DIGITS = 20
"""Steps of a clock's resolution in one step: of fewer, rounding looks like a fault."""

MAX_STEP = 1e15
"""What is larger is no count of steps."""

OVERHEAD = 1.25
"""What a step may last by the wall clock for its own seconds, where a column does not say what it holds."""

_FOR_EXCEL = re.compile(r"\"?sep=.?\"?", re.IGNORECASE)
"""A line that tells Excel what lies between the cells."""

_IN_UNIT = re.compile(r" ?\((?:[numµ]?s|nsec|usec|msec|sec)\)$")
_TENSORBOARD = ["step", "value", "wall time"]
ADVICE = "call the column of seconds step_time (of milliseconds step_time_ms), or the file step_times.csv"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells with a name for each column, all names empty without a line of names."""

    file: str
    names: list[str]
    kinds: list[Kind]
    rows: list[list[str]] = field(repr=False)

    def cells(self, column: int) -> list[str]:
        """One column, empty where a row is too short."""
        return with_points([row[column] if column < len(row) else "" for row in self.rows])

    def of_kind(self, *kinds: Kind) -> list[int]:
        """Columns of these kinds."""
        return [column for column, kind in enumerate(self.kinds) if kind in kinds]

    def steps(self) -> list[float]:
        """The step of each row, empty without a column of steps."""
        columns = self.of_kind("step")
        return [plain(cell) for cell in self.cells(columns[0])] if columns else []

    def title(self, column: int) -> str:
        """The name of a column, its number if it has none."""
        return self.names[column] or str(column)


def table_series(table: Table, *, name: str) -> list[StepSeries]:
    """Series of a table: rows of several ranks, hosts or runs give one each.

    Raises ReaderError where no column tells of time.
    """
    if not table.rows:
        raise ReaderError(f"{table.file} holds no step times: no row of numbers")
    if _is_of_nsys(table):
        raise ReaderError(
            f"{table.file} is a table of nsys stats, which tells of no step: "
            "give the report itself, nsys export --type sqlite REPORT.nsys-rep"
        )
    parts = _parts(table)
    found: list[StepSeries] = []
    for label, part in parts.items():
        whose = f"{name}/{label}" if len(parts) > 1 else name
        found += _series(part, whose)
    return found


def table_of(text: str, file: str) -> Table:
    """A comma, semicolon, tab or blank separated table, with or without a line of names. Raises ReaderError."""
    lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip() and line.lstrip()[0] != "#"]
    if lines and _FOR_EXCEL.fullmatch(lines[0].strip()):
        lines = lines[1:]
    bare = re.sub(r'"[^"]*"', "", lines[0]) if lines else ""
    mark = next((mark for mark in "\t;," if mark in bare), None)
    try:
        rows = list(csv.reader(lines, delimiter=mark)) if mark else [line.split() for line in lines]
    except csv.Error as error:
        raise ReaderError(f"{file} is a damaged table ({error})") from None
    rows = [row for row in rows if row]
    if not rows:
        return Table(file=file, names=[], kinds=[], rows=[])
    if any(not is_missing(cell) and math.isnan(seconds(with_points([cell])[0])) for cell in rows[0]):
        names = [cell.strip() for cell in rows[0]]
        own = [row for row in rows if row != rows[0]]  # a job that began anew writes its names again
        return Table(file=file, names=names, kinds=[kind_of(one) for one in names], rows=own)
    width = len(rows[0])
    kinds: list[Kind] = ["duration"] * width
    if width == 2:
        kinds[0] = "step"
    return Table(file=file, names=[""] * width, kinds=kinds, rows=rows)


def _is_of_nsys(table: Table) -> bool:
    """Whether a row is a kernel, a range or a call: a sum over all of them, or one of them with its start and its end."""
    said = {_IN_UNIT.sub("", name.lower()).replace(" ", "") for name in table.names}
    return {"time(%)", "totaltime"} <= said or (
        {"start", "duration"} <= said and bool({"corrid", "lvl"} & said)
    )


def _parts(table: Table) -> dict[str, Table]:
    """The rows of each rank, host or run, in the order of their first rows."""
    columns = [column for column in table.of_kind("whose") if len(set(table.cells(column))) > 1]
    if not columns:
        return {"": table}
    rows: dict[str, list[list[str]]] = defaultdict(list)
    owners = zip(*(table.cells(column) for column in columns), strict=True)
    for row, owner in zip(table.rows, owners, strict=True):
        pairs = zip(columns, owner, strict=True)
        rows[", ".join(f"{table.names[column]} {cell.strip()}" for column, cell in pairs)].append(row)
        if len(rows) > MAX_SERIES:
            raise ReaderError(f"{table.file} holds more than {MAX_SERIES:,} series, which is refused")
    return {label: replace(table, rows=own) for label, own in rows.items()}


def picked(table: Table) -> tuple[list[int], bool]:
    """The columns that say most surely how long a step takes, and whether they are rates; none where only a clock may."""
    durations = table.of_kind("duration") or _tensorboard(table)
    if not durations:
        durations = [column for column in table.of_kind("time") if not is_clock(table, column)]
    rates = [] if durations else table.of_kind("rate")
    if not durations and not rates:
        durations = table.of_kind("rank") or (table.of_kind("other") if _is_of_times(table.file) else [])
    return durations or rates, bool(rates)


def _series(table: Table, name: str) -> list[StepSeries]:
    """Series of the picked columns; of a clock without any."""
    columns, are_rates = picked(table)
    if not columns:
        return [_of_clock(table, _clock(table), name)]
    first, interval = grid([int(step) for step in table.steps() if math.isfinite(step)])
    steps = _own_steps(table)
    return [
        StepSeries(
            name=name if len(columns) == 1 else f"{name}/{table.title(column)}"[:256],
            values_s=tuple(_inverses(table, column) if are_rates else _durations(table, column)),
            interval=interval,
            first_step=first,
            unit=unit_of_rate(table.names[column]) if are_rates else "s",
            steps=steps,
        )
        for column in columns
    ]


def _own_steps(table: Table) -> tuple[int, ...]:
    """The step of each row, empty where one is not told."""
    steps = table.steps()
    return tuple(map(int, steps)) if all(abs(step) < MAX_STEP for step in steps) else ()


def _durations(table: Table, column: int) -> list[float]:
    scale = scale_of(table.names[column])
    return [seconds(cell, scale) for cell in table.cells(column)]


def _inverses(table: Table, column: int) -> list[float]:
    """Seconds for one unit of work: they change as a step of equal work does."""
    return [1 / rate if (rate := plain(cell)) > 0 else math.nan for cell in table.cells(column)]


def _is_of_times(file: str) -> bool:
    return kind_of(file.split(".")[0].rpartition("tag-")[2].replace("/", "_")) in ("duration", "time")


def _tensorboard(table: Table) -> list[int]:
    """The values of TensorBoard's export if they are seconds: by the tag in the file's name, else by the wall clock."""
    low = [name.lower() for name in table.names]
    if sorted(low) != _TENSORBOARD or (("tag-" in table.file) and not _is_of_times(table.file)):
        return []
    value = low.index("value")
    if _is_of_times(table.file):
        return [value]
    clock = _differences(table, low.index("wall time"))
    own = [one for one in _durations(table, value) if one > 0]
    wall = [one for one in clock if one > 0]
    return [value] if own and wall and 1 / OVERHEAD <= np.median(wall) / np.median(own) <= OVERHEAD else []


def is_clock(table: Table, column: int) -> bool:
    """Whether a column that may hold durations grows as time does: nearly always, and not by rare jumps."""
    values = np.array(_moments(table, column))
    values = values[np.isfinite(values)]
    if len(values) and np.median(values) >= EPOCH_S:
        return True
    if len(values) < MIN_CLOCK:
        return False
    change = np.diff(values)
    return bool((change >= 0).mean() >= 0.9 and (change > 0).mean() >= 0.1)


def _clock(table: Table) -> int:
    """The column of times of day. Raises ReaderError with the columns seen without one."""
    clocks = [*table.of_kind("clock"), *table.of_kind("time")]
    if clocks:
        return clocks[0]
    seen = [repr(name[:60]) for name in table.names if name]
    shown = ", ".join(seen[:8]) + (f" and {len(seen) - 8} more" if len(seen) > 8 else "")
    raise ReaderError(f"{table.file} holds no column of step times, only {shown}: {ADVICE}")


def _moments(table: Table, column: int) -> list[float]:
    scale = _clock_scale(table, column)
    return [moment(cell, scale) for cell in table.cells(column)]


def _clock_scale(table: Table, column: int) -> float:
    """Seconds of a clock's unit, told by its name or else by how large the time since 1970 is in it."""
    scale = scale_of(table.names[column])
    known = [value for cell in table.cells(column) if math.isfinite(value := plain(cell))]
    middle = float(np.median(known)) if known and scale == 1 else 0.0
    return next((unit for unit in (1e-6, 1e-3) if middle * unit >= EPOCH_S), scale)


def _differences(table: Table, column: int) -> list[float]:
    """Seconds a step between each row and the next, NaN where the clock or the step went back."""
    pairs = list(pairwise(_moments(table, column)))
    steps = table.steps()
    gaps = [b - a for a, b in pairwise(steps)] if steps else [1.0] * len(pairs)
    return [(b - a) / gap if b > a and gap > 0 else math.nan for (a, b), gap in zip(pairs, gaps, strict=True)]


def _of_clock(table: Table, column: int, name: str) -> StepSeries:
    values = _differences(table, column)
    known = [value for value in values if math.isfinite(value)]
    first, interval = grid([int(step) for step in table.steps()[1:] if math.isfinite(step)])
    finest = resolution(table.cells(column), _clock_scale(table, column))
    if known and np.median(known) * interval < MIN_DIGITS * finest:
        raise ReaderError(
            f"{table.file} holds no step times: the clock in {table.title(column)[:60]!r} is too coarse for "
            f"{np.median(known) * interval:.3g} s between its rows"
        )
    return StepSeries(
        name=name, values_s=tuple(values), interval=interval, first_step=first, steps=_own_steps(table)[1:]
    )
