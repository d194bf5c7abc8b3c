"""Timers that a training log prints for single ranks, as the ranks' records.

Megatron-LM (`megatron/core/timers.py`) prints a table after an iteration line: `times across ranks (ms):` with a
line per timer and rank, or the least and the largest only. DeepSpeed prints `[Rank 0] time (ms) | fwd: 652.41 | …`,
before 0.10.1 `[Rank 0] rank=0 time (ms) | forward: …`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from argus.collectors.rank.aliases import ALIASES
from argus.collectors.readers import Reading
from argus.collectors.readers._lines import Line
from argus.collectors.records.events import COMM_PHASES, PHASE, STEP, RankRecords, Rows
from argus.collectors.records.layout import MAX_WORLD, Layout
from argus.collectors.records.outside_event import OutsideEvent

MAX_CELLS = 5_000_000
"""Times taken of one log: a thousand tables of a thousand ranks with five timers."""

MAX_MS = 1e9
SPREAD = 1.2
"""Least and largest time of a timer further apart than this are told; nearer is ordinary."""

OF_INTERVALS = "single steps: each table of timers is the mean of its logging interval"
OF_TIMERS = "collectives and CPU time of threads: a log of timers holds none"

UNOBSERVED_NS = -1
SOURCE = "timer table"

_ITERATION = re.compile(
    r"iteration\s+(\d{1,15})/\s*\d+\s*\|.*?elapsed time per iteration \((ms|s)\):\s*([\d.eE+-]+)"
)
_ALL = re.compile(r"(?<!\) )(?<!max )times? across ranks \(ms\):\s*$")
_ENDS = re.compile(r"\(min, max\) time across ranks \(ms\):\s*$")
_TIMER = re.compile(r"^\s*([A-Za-z][\w/-]{0,79}):\s*$")
_RANK = re.compile(r"^\s*rank\s+(\d{1,7}):\s*([\d.]+)\s*$")
_PAIR = re.compile(r"^\s*([A-Za-z][\w/-]{0,79}) \.*:\s*\(([\d.]+), ([\d.]+)\)\s*$")
_DEEPSPEED = re.compile(r"(?:\brank=|\[Rank (?=\d+\]))(\d{1,7})\]? time \(ms\) \| (.+)$")
_DEEPSPEED_ONE = re.compile(r"(\w+): ([\d.eE+-]+)")
_DEEPSPEED_OUTER = ("fwd", "forward", "bwd", "backward", "step")

_WRAPPERS = frozenset({"forward-backward", "interval-time", "train/valid/test-data-iterators-setup"})
"""Timers around others, whose time would count twice."""

_INNER = re.compile(r"^optimizer-")
"""Parts of the timer `optimizer`."""

_BETWEEN = re.compile(r"^(save|load)-checkpoint|^eval(uate|-time)")
"""Timers of what Megatron does between iterations: no iteration's time holds them, and rank 0 may save for all."""


@dataclass(frozen=True, kw_only=True)
class TimerTable:
    """The timers of one iteration: name to rank to milliseconds. `elapsed_ms` = how long it took, if that is told;
    `phases` = the canonical phase by a timer's name; `step` = its number among the job's steps, its place among the tables if None."""

    iteration: int
    elapsed_ms: float | None
    cells: Mapping[str, dict[int, float]]
    phases: Mapping[str, str] = field(default_factory=lambda: ALIASES)
    step: int | None = None


@dataclass(kw_only=True)
class Timers:
    """All timers of a log; lines are given one after the other."""

    tables: list[TimerTable] = field(default_factory=list)
    ends: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    num_cells: int = 0
    _iteration: tuple[int, float | None] = (-1, None)
    _mode: str = ""
    _name: str = ""
    _lanes: dict[int, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, line: Line) -> bool:
        """Whether the line is part of a table of timers."""
        text = line.text
        if _ALL.search(text):
            self._mode, self._name = "all", ""
            self.tables.append(
                TimerTable(
                    iteration=self._iteration[0], elapsed_ms=self._iteration[1], cells=defaultdict(dict)
                )
            )
            return True
        if _ENDS.search(text):
            self._mode = "ends"
            return True
        if self._mode and self._in_table(text):
            return True
        self._mode = ""
        return self._outside(text)

    def _in_table(self, text: str) -> bool:
        if self._mode == "ends":
            pair = _PAIR.match(text)
            if pair is not None and self._has_room():
                self.ends[pair[1]].append((float_of(pair[2]), float_of(pair[3])))
            return pair is not None
        cell = _RANK.match(text)
        if cell is not None and self._name:
            if self._has_room() and int(cell[1]) < MAX_WORLD:
                self.tables[-1].cells[self._name][int(cell[1])] = float_of(cell[2])
            return True
        name = _TIMER.match(text)
        self._name = name[1] if name else ""
        return name is not None

    def _outside(self, text: str) -> bool:
        """An iteration line is remembered, for a table may follow; DeepSpeed's line is a table of one rank."""
        iteration = _ITERATION.search(text) if "elapsed time per iteration" in text else None
        if iteration is not None:
            scale = 1.0 if iteration[2] == "ms" else 1e3
            self._iteration = int(iteration[1]), float_of(iteration[3]) * scale
        mine = _DEEPSPEED.search(text) if "time (ms) |" in text else None
        if mine is not None and self._has_room() and int(mine[1]) < MAX_WORLD:
            cells = {name: float_of(value) for name, value in _DEEPSPEED_ONE.findall(mine[2])}
            if any(name in cells for name in ("fwd", "forward")):
                self._lanes[int(mine[1])].append(cells)
        return False

    def _has_room(self) -> bool:
        self.num_cells += 1
        return self.num_cells <= MAX_CELLS

    def readings(self, *, source: str) -> list[Reading]:
        """Each rank's records, if there are two at least: one alone can be compared with nobody."""
        tables = [*(table for table in map(_within, self.tables) if table is not None), *self._by_iteration()]
        return readings_of(tables, source=source, reader="training_log", unseen=(OF_INTERVALS, OF_TIMERS))

    @property
    def are_of_ranks(self) -> bool:
        """Whether several ranks print a line of timers each."""
        return len(self._lanes) > 1

    def _by_iteration(self) -> list[TimerTable]:
        """DeepSpeed's lines: the n-th line of each rank is of the same step."""
        if not self.are_of_ranks:
            return []
        tables = []
        for index in range(min(map(len, self._lanes.values()))):
            cells: dict[str, dict[int, float]] = defaultdict(dict)
            for rank, rows in self._lanes.items():
                for name in _DEEPSPEED_OUTER:
                    if name in rows[index]:
                        cells[name][rank] = rows[index][name]
            tables.append(TimerTable(iteration=-1, elapsed_ms=None, cells=cells))
        return tables

    def events(self) -> tuple[OutsideEvent, ...]:
        """Timers whose least and largest time over the ranks lie far apart: who they are is not said."""
        return tuple(self._spread())

    def _spread(self) -> Iterator[OutsideEvent]:
        for name, pairs in self.ends.items():
            low, high = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
            if high > SPREAD * low > 0:
                text = f"{name} takes {low:.5g} ms on the fastest rank and {high:.5g} ms on the slowest; the log does "
                yield OutsideEvent(
                    time_s=0.0,
                    node="run:log",
                    source=SOURCE,
                    text=text + "not say which (timing-log-option all does)",
                )


def readings_of(
    tables: Sequence[TimerTable],
    *,
    source: str,
    reader: str,
    unseen: tuple[str, ...],
    run: str = "timers",
    least: int = 2,
) -> list[Reading]:
    """Each rank's records of these tables, if there are `least` ranks."""
    ranks = sorted({rank for table in tables for cells in table.cells.values() for rank in cells})
    if len(ranks) < least:
        return []
    lengths = [_length_ms(table) for table in tables]
    layout = Layout(run=run, attempt=0, rank=0, world_size=ranks[-1] + 1, source=reader)
    return [
        Reading(records=_records(replace(layout, rank=rank), tables, lengths, unseen=unseen), source=source)
        for rank in ranks
    ]


def rank_of(text: str) -> int:
    """The rank in DeepSpeed's line of timers, -1 in any other.

    >>> rank_of("[Rank 3] time (ms) | fwd: 652.41"), rank_of("step: 3")
    (3, -1)
    """
    match = _DEEPSPEED.search(text) if "time (ms) |" in text else None
    return int(match[1]) if match else -1


def float_of(text: str) -> float:
    """Milliseconds, 0 for what cannot be a time."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < MAX_MS else 0.0


def _within(table: TimerTable) -> TimerTable | None:
    """The table without what lies between iterations, None if it holds nothing else."""
    cells = {name: times for name, times in table.cells.items() if not _BETWEEN.match(name)}
    return None if table.cells and not cells else replace(table, cells=cells)


def _length_ms(table: TimerTable) -> float:
    """How long the iteration took; without an iteration line, what its busiest rank spent in timers."""
    if table.elapsed_ms is not None:
        return table.elapsed_ms
    totals: dict[int, float] = defaultdict(float)
    for name, cells in table.cells.items():
        if name not in _WRAPPERS and not _INNER.match(name):
            for rank, value in cells.items():
                totals[rank] += value
    return max(totals.values(), default=0.0)


def _records(
    layout: Layout, tables: Sequence[TimerTable], lengths: Sequence[float], *, unseen: tuple[str, ...]
) -> RankRecords:
    names: dict[str, int] = {"": 0}
    steps, phases = np.zeros(len(tables), STEP), []
    at_ns = 0
    for place, (table, length_ms) in enumerate(zip(tables, lengths, strict=True)):
        end_ns, index = at_ns + round(length_ms * 1e6), place if table.step is None else table.step
        steps[place] = (index, table.iteration, at_ns, end_ns, UNOBSERVED_NS, 0)
        phases.append(_phases(table, layout.rank, names, index=index, start_ns=at_ns, end_ns=end_ns))
        at_ns = end_ns
    return RankRecords(
        layout=layout, names=tuple(names), steps=steps, phases=np.concatenate(phases), unseen=unseen
    )


def own_times(table: TimerTable, rank: int) -> dict[str, float]:
    """The rank's timers that do not lie in each other; Megatron loads the batch inside of its forward timer."""
    mine = {name: cells[rank] for name, cells in table.cells.items() if cells.get(rank, 0.0) > 0}
    if "forward-compute" in mine and "batch-generator" in mine:
        mine["forward-compute"] = max(mine["forward-compute"] - mine["batch-generator"], 0.0)
    wrapped = "forward-compute" in mine or "backward-compute" in mine
    if "optimizer" in mine:
        mine = {name: value for name, value in mine.items() if not _INNER.match(name)}
    return {
        name: v
        for name, v in mine.items()
        if name not in _WRAPPERS or (name == "forward-backward" and not wrapped)
    }


def _phases(
    table: TimerTable, rank: int, names: dict[str, int], *, index: int, start_ns: int, end_ns: int
) -> Rows:
    """One row a timer, one behind the other, and the rest of the step as `other`."""
    mine = own_times(table, rank)
    rows = np.zeros(len(mine) + 1, PHASE)
    rows["step"], rows["cpu_ns"], rows["chunk"], rows["micro_batch"] = index, UNOBSERVED_NS, -1, -1
    at_ns = start_ns
    for row, (native, ms) in zip(rows[:-1], mine.items(), strict=True):
        phase = "forward" if native == "forward-backward" else table.phases.get(native, "other")
        dur_ns = round(ms * 1e6)
        row["name"] = names.setdefault(phase, len(names))
        row["native"] = names.setdefault(native, len(names))
        row["start_ns"], row["dur_ns"] = at_ns, dur_ns
        row["wait_ns"] = dur_ns if phase in COMM_PHASES else 0
        at_ns += dur_ns
    rest = max(end_ns - at_ns, 0)
    rows[-1]["name"] = rows[-1]["native"] = names.setdefault("other", len(names))
    rows[-1]["start_ns"], rows[-1]["dur_ns"], rows[-1]["wait_ns"] = at_ns, rest, rest
    return rows
