"""A window: all ranks of an attempt over the same whole steps, as dense arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

import numpy as np
from numpy.typing import DTypeLike, NDArray

from argus.analytics.collectives import Collectives, collect
from argus.analytics.gathered import Texts, end_to_end, in_columns, told
from argus.analytics.recalled import recalled
from argus.analytics.runtime_events import RuntimeEvents
from argus.collectors.records.cost import Cost
from argus.collectors.records.events import CLOCK_GPU, EXCLUDED_FLAGS
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import Topology
from argus.topology.pause import collection_paused

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What of the window arrived. `ratio` = rank-steps present / rank-steps expected.

    `overhead` is what Argus cost by channel as the hosts measured it in the run so far, their mean.
    """

    ratio: float
    missing_ranks: tuple[int, ...]
    missing_steps: int
    dropped: Mapping[str, int]
    unseen: tuple[str, ...]
    overhead: Mapping[str, Cost] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RankClocks:
    """What was found out about each rank's clock, (rank,) each: `offset_s` and `drift` (seconds per second) that
    were taken out, the `error_s` that is left (infinite = not to be compared), and the `island` of clocks that
    calls tie together."""

    offset_s: Floats
    drift: Floats
    error_s: Floats
    island: Ints


@dataclass(frozen=True, kw_only=True)
class Window:
    """Steps [first_step, first_step + num_steps) of every expected rank; NaN = not observed.

    Shapes: `ranks` (rank,), `steps`, `flags`, `usable` (step,), `step_s`, `step_cpu_s` (rank, step),
    phase arrays (phase, rank, step), `num` = how often the phase ran, None if nobody counted. `groups` are ids of `topology`. `kernels` are packed kernel summaries,
    one or more ranks each; `kernel_names` the definitions of names they do not bring along. `use` maps what
    hosts measured (names of `RankWindow.use`) to (rank,), `marks` a rank to what its host stated in words.
    """

    run: str
    attempt: int
    index: int
    first_step: int
    num_steps: int
    topology: Topology
    ranks: Ints
    steps: Ints
    flags: NDArray[np.uint32]
    step_s: Floats
    step_cpu_s: Floats
    phases: tuple[str, ...]
    natives: tuple[str, ...]
    clock_gpu: Bools
    dur_s: Floats
    wait_s: Floats
    max_s: Floats
    cpu_s: Floats
    groups: tuple[str, ...]
    collectives: Collectives
    events: RuntimeEvents
    coverage: Coverage
    clock_method: str
    clock_residual_s: float
    clocks: RankClocks | None = None
    kernels: tuple[bytes, ...] = ()
    kernel_names: Mapping[int, str] = field(default_factory=dict)
    use: Mapping[str, Floats] = field(default_factory=dict)
    marks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    num: Floats | None = None

    @cached_property
    def call_row(self) -> Ints:
        """Row of `ranks` of each row of `collectives`. (row,)"""
        rank, first = self.collectives.rank, int(self.ranks[0])
        if int(self.ranks[-1]) - first == len(self.ranks) - 1:  # all of them, as nearly always
            return rank - first
        return np.searchsorted(self.ranks, rank).astype(np.int64)

    @cached_property
    def host_code(self) -> tuple[tuple[str, ...], Ints]:
        """Hosts of the ranks, and each rank's number among them, −1 where it is not known. (rank,)"""
        known: dict[str, int] = {}
        names = [self.topology.host_of(rank) for rank in self.ranks.tolist()]
        code = np.array([known.setdefault(name, len(known)) if name else -1 for name in names], np.int64)
        return tuple(known), code

    @property
    def usable(self) -> Bools:
        """Steps that belong in comparisons: no warm-up, mark or disturbance of our own. (step,)"""
        return np.asarray((self.flags & np.uint32(EXCLUDED_FLAGS)) == 0)

    @property
    def self_s(self) -> Floats:
        """Phase time minus the waiting inside it. (phase, rank, step)"""
        return np.maximum(self.dur_s - self.wait_s, 0.0)


@collection_paused()
def assemble(
    summaries: Iterable[RankWindow], topology: Topology, *, rows_of: Sequence[int] | None = None
) -> Window:
    """All ranks' summaries of one window as arrays, NaN if missing. ValueError if they are not of one.

    `rows_of` are the ranks that have a row besides those of the summaries, all there should be by default.
    """
    parts = _one_window(summaries)
    expected, ranks = _ranks(parts, topology, rows_of)
    return _assembled(parts, topology, expected=expected, ranks=ranks)


def _assembled(parts: list[RankWindow], topology: Topology, *, expected: set[int], ranks: Ints) -> Window:
    head, texts = parts[0], _texts(parts, topology)
    row = np.searchsorted(ranks, [part.rank for part in parts])
    groups, collectives = collect(parts, texts, topology)
    series = _step_series(parts, row, shape=(len(ranks), head.num_steps))
    cells = _phase_cells(parts, texts, row, step_s=series.step_s)
    is_lone = _is_lone(parts, topology)
    return Window(
        run=head.run,
        attempt=head.attempt,
        kernels=tuple(part.kernels for part in parts if part.kernels),
        index=head.window,
        first_step=head.first_step,
        num_steps=head.num_steps,
        topology=topology,
        ranks=ranks,
        steps=np.arange(head.first_step, head.first_step + head.num_steps),
        flags=series.flags,
        step_s=series.step_s,
        step_cpu_s=series.step_cpu_s,
        groups=groups,
        collectives=collectives,
        events=_events(parts, texts),
        coverage=_coverage(parts, expected, series.step_s),
        clock_method="one host" if is_lone else "unaligned",
        clock_residual_s=0.0 if is_lone else float("inf"),
        phases=cells.phases,
        natives=cells.natives,
        clock_gpu=cells.clock_gpu,
        dur_s=cells.times["sum_ns"],
        wait_s=cells.times["wait_ns"],
        max_s=cells.times["max_ns"],
        cpu_s=cells.times["cpu_ns"],
        num=cells.num,
        use=_use(parts, row, num_ranks=len(ranks)),
        marks={part.rank: part.marks for part in parts if part.marks},
    )


def _ranks(
    parts: list[RankWindow], topology: Topology, rows_of: Sequence[int] | None
) -> tuple[set[int], Ints]:
    """The ranks there should be, and those that have a row."""
    here = {part.rank for part in parts}
    rows = topology.ranks if rows_of is None else rows_of
    return {*topology.ranks, *here}, np.array(sorted({*rows, *here}), np.int64)


def _is_lone(parts: list[RankWindow], topology: Topology) -> bool:
    """Whether one host has all the clocks: a rank that never reported reads none."""
    hosts = {topology.host_of(rank) for rank in topology.ranks} - {""}
    return len(hosts | {topology.host_of(part.rank) for part in parts}) <= 1


def _texts(parts: list[RankWindow], topology: Topology) -> Texts:
    tables = told(parts)
    return recalled(topology, "texts", tables, lambda: Texts(*tables))


def _use(parts: list[RankWindow], row: Ints, *, num_ranks: int) -> dict[str, Floats]:
    """What hosts measured, NaN where they did not. (rank,)"""
    names = {name for part in parts for name in part.use}
    use = {name: np.full(num_ranks, np.nan) for name in sorted(names)}
    for at, part in zip(row, parts, strict=True):
        for name, value in part.use.items():
            use[name][at] = value
    return use


def _one_window(summaries: Iterable[RankWindow]) -> list[RankWindow]:
    parts = sorted(summaries, key=lambda part: part.rank)
    if not parts:
        raise ValueError("a window needs at least one rank's summary")
    if len({(p.run, p.attempt, p.window, p.first_step, p.num_steps) for p in parts}) > 1:
        raise ValueError("summaries of different windows cannot be assembled into one")
    return parts


@dataclass(frozen=True, kw_only=True)
class _Series:
    flags: NDArray[np.uint32]
    step_s: Floats
    step_cpu_s: Floats


def _step_series(parts: list[RankWindow], row: Ints, *, shape: tuple[int, int]) -> _Series:
    series = _Series(
        flags=np.zeros(shape[1], np.uint32), step_s=np.full(shape, np.nan), step_cpu_s=np.full(shape, np.nan)
    )
    steps, part_of = end_to_end([part.steps for part in parts])
    where = row[part_of]
    at = steps["step"] - parts[0].first_step
    series.step_s[where, at] = (steps["end_ns"] - steps["start_ns"]) * 1e-9
    series.step_cpu_s[where, at] = steps["cpu_ns"] * 1e-9
    np.bitwise_or.at(series.flags, at, steps["flags"])
    return series


@dataclass(frozen=True, kw_only=True)
class _Cells:
    phases: tuple[str, ...]
    natives: tuple[str, ...]
    clock_gpu: Bools
    times: Mapping[str, Floats]
    num: Floats


_CELL_TIMES = ("sum_ns", "max_ns", "wait_ns", "cpu_ns")
_CELLS: Mapping[str, DTypeLike] = {
    **dict.fromkeys(("phase", "native"), np.uint32),
    **dict.fromkeys(("step", "count"), np.int64),
    **dict.fromkeys(_CELL_TIMES, np.float64),
    "clock": np.uint8,
}


def _phase_cells(parts: list[RankWindow], texts: Texts, row: Ints, *, step_s: Floats) -> _Cells:
    cells, part_of = in_columns([part.cells for part in parts], _CELLS)
    reader = texts.of(part_of)
    found, code = reader.codes(cells["phase"])
    names = sorted(found)
    phase = np.array([names.index(name) for name in found] or [0], np.int64)[code]
    # A rank that reported the step but not the phase spent no time in it.
    none = np.broadcast_to(np.where(np.isnan(step_s), np.nan, 0.0), (len(names), *step_s.shape))
    at = np.ravel_multi_index((phase, row[part_of], cells["step"] - parts[0].first_step), none.shape)
    times = {key: none.copy() for key in _CELL_TIMES}
    for key in _CELL_TIMES:
        times[key].reshape(-1)[at] = cells[key]
    num = none.copy()
    num.reshape(-1)[at] = cells["count"]
    gpu = np.zeros(len(names), np.bool_)
    gpu[phase[cells["clock"] == CLOCK_GPU]] = True
    told, native = reader.codes(cells["native"])
    last = np.zeros(len(names), np.int64)
    last[phase] = native
    natives = tuple(told[last[i]] or name for i, name in enumerate(names))
    return _Cells(phases=tuple(names), natives=natives, clock_gpu=gpu, times=times, num=num)


def _events(parts: list[RankWindow], texts: Texts) -> RuntimeEvents:
    rows, part_of = end_to_end([part.events for part in parts])
    kinds, code = texts.of(part_of).codes(rows["kind"])
    return RuntimeEvents(
        rank=np.array([part.rank for part in parts], np.int64)[part_of],
        kind_code=code,
        step=rows["step"].astype(np.int64),
        start_s=rows["start_ns"] * 1e-9,
        dur_s=rows["dur_ns"] * 1e-9,
        value=rows["value"].astype(np.float64),
        kinds=kinds,
    )


def _coverage(parts: list[RankWindow], expected: set[int], step_s: Floats) -> Coverage:
    dropped: dict[str, int] = {}
    for part in parts:
        for reason, count in part.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    here = {part.rank for part in parts}
    size = len(expected) * step_s.shape[1]
    missing = size - int(np.isfinite(step_s).sum())
    return Coverage(
        ratio=1.0 - missing / size,
        missing_ranks=tuple(sorted(expected - here)),
        missing_steps=missing,
        dropped=dropped,
        unseen=tuple(sorted({text for part in parts for text in (*part.unseen, *_stepped_down(part))})),
        overhead=_overhead({part.host: part.overhead for part in parts}.values()),
    )


def _stepped_down(part: RankWindow) -> tuple[str, ...]:
    return tuple(f"{channel}: off, so that Argus costs less" for channel in part.channels_off)


def _overhead(hosts: Iterable[Mapping[str, Cost]]) -> dict[str, Cost]:
    """The mean over the hosts; they see the same steps, so the narrowest number of pairs counts."""
    found: dict[str, list[Cost]] = {}
    for costs in hosts:
        for channel, cost in costs.items():
            found.setdefault(channel, []).append(cost)
    return {
        channel: Cost(
            ratio=fmean(cost.ratio for cost in costs),
            low=fmean(cost.low for cost in costs),
            high=fmean(cost.high for cost in costs),
            n=min(cost.n for cost in costs),
        )
        for channel, costs in found.items()
    }
