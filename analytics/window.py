"""A window: all ranks of an attempt over the same whole steps, as dense arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.cost import Cost
from argus.collectors.records.events import CLOCK_GPU, EXCLUDED_FLAGS
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Collectives:
    """One row per (call, member); rows of one call share `call`. All arrays have shape (row,).

    `phase` is the canonical phase the call was issued in, "" outside of any.

    `group` indexes `Window.groups`; `rank` is the global rank; times are seconds of the member's own
    host clock, comparable across hosts only as far as `Window.clock_residual_s` says.
    """

    call: Ints
    rank: Ints
    group: Ints
    op: NDArray[np.str_]
    seq: Ints
    peer: Ints
    step: Ints
    bytes: Ints
    entry_s: Floats
    end_s: Floats
    blocked_s: Floats
    cpu_s: Floats
    phase: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True)
class RuntimeEvent:
    """One exact statement of the runtime: a collection, a compilation, a mark, …"""

    rank: int
    kind: str
    step: int
    start_s: float
    dur_s: float
    value: float


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
class Window:
    """Steps [first_step, first_step + num_steps) of every expected rank; NaN = not observed.

    Shapes: `ranks` (rank,), `steps`, `flags`, `usable` (step,), `step_s`, `step_cpu_s` (rank, step),
    phase arrays (phase, rank, step). `groups` are ids of `topology`. `kernels` are packed kernel summaries,
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
    events: tuple[RuntimeEvent, ...]
    coverage: Coverage
    clock_method: str
    clock_residual_s: float
    kernels: tuple[bytes, ...] = ()
    kernel_names: Mapping[int, str] = field(default_factory=dict)
    use: Mapping[str, Floats] = field(default_factory=dict)
    marks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def usable(self) -> Bools:
        """Steps that belong in comparisons: no warm-up, mark or disturbance of our own. (step,)"""
        return np.asarray((self.flags & np.uint32(EXCLUDED_FLAGS)) == 0)

    @property
    def self_s(self) -> Floats:
        """Phase time minus the waiting inside it. (phase, rank, step)"""
        return np.maximum(self.dur_s - self.wait_s, 0.0)


def assemble(summaries: Iterable[RankWindow], topology: Topology) -> Window:
    """All ranks' summaries of one window as arrays, NaN if missing. ValueError if they are not of one."""
    parts = _one_window(summaries)
    head = parts[0]
    ranks = np.array(sorted({*topology.ranks, *(p.rank for p in parts)}), np.int64)
    row = {int(rank): i for i, rank in enumerate(ranks)}
    series = _step_series(parts, row, shape=(len(ranks), head.num_steps))
    cells = _phase_cells(parts, row, head.first_step, series.step_s)
    groups, collectives = _collectives(parts, topology)
    hosts = {topology.host_of(int(rank)) for rank in ranks}
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
        events=_events(parts),
        coverage=_coverage(parts, ranks, series.step_s),
        clock_method="one host" if len(hosts) <= 1 else "unaligned",
        clock_residual_s=0.0 if len(hosts) <= 1 else float("inf"),
        phases=cells.phases,
        natives=cells.natives,
        clock_gpu=cells.clock_gpu,
        dur_s=cells.times["sum_ns"],
        wait_s=cells.times["wait_ns"],
        max_s=cells.times["max_ns"],
        cpu_s=cells.times["cpu_ns"],
        use=_use(parts, row),
        marks={part.rank: part.marks for part in parts if part.marks},
    )


def _use(parts: list[RankWindow], row: Mapping[int, int]) -> dict[str, Floats]:
    """What hosts measured, NaN where they did not. (rank,)"""
    use = {name: np.full(len(row), np.nan) for part in parts for name in part.use}
    for part in parts:
        for name, value in part.use.items():
            use[name][row[part.rank]] = value
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


def _step_series(parts: list[RankWindow], row: Mapping[int, int], *, shape: tuple[int, int]) -> _Series:
    series = _Series(
        flags=np.zeros(shape[1], np.uint32), step_s=np.full(shape, np.nan), step_cpu_s=np.full(shape, np.nan)
    )
    for part in parts:
        at = part.steps["step"] - part.first_step
        series.step_s[row[part.rank], at] = (part.steps["end_ns"] - part.steps["start_ns"]) * 1e-9
        series.step_cpu_s[row[part.rank], at] = part.steps["cpu_ns"] * 1e-9
        np.bitwise_or.at(series.flags, at, part.steps["flags"])
    return series


@dataclass(frozen=True, kw_only=True)
class _Cells:
    phases: tuple[str, ...]
    natives: tuple[str, ...]
    clock_gpu: Bools
    times: Mapping[str, Floats]


def _phase_cells(parts: list[RankWindow], row: Mapping[int, int], first_step: int, step_s: Floats) -> _Cells:
    names = sorted({part.name(int(i)) for part in parts for i in np.unique(part.cells["phase"])})
    where = {name: i for i, name in enumerate(names)}
    shape = (len(names), *step_s.shape)
    # A rank that reported the step but not the phase spent no time in it.
    columns = ("sum_ns", "max_ns", "wait_ns", "cpu_ns")
    times = {key: np.where(np.isnan(step_s), np.nan, np.zeros(shape)) for key in columns}
    natives = list(names)
    gpu = np.zeros(len(names), np.bool_)
    for part in parts:
        cells = part.cells
        p = np.array([where[part.name(int(i))] for i in cells["phase"]], np.int64)
        at = (p, row[part.rank], cells["step"] - first_step)
        for key in columns:
            times[key][at] = cells[key] * 1e-9
        gpu[p[cells["clock"] == CLOCK_GPU]] = True
        for index, native in zip(p, cells["native"], strict=True):
            natives[index] = part.name(int(native)) or names[index]
    return _Cells(phases=tuple(names), natives=tuple(natives), clock_gpu=gpu, times=times)


def _collectives(parts: list[RankWindow], topology: Topology) -> tuple[tuple[str, ...], Collectives]:
    ids: dict[str, int] = {}
    rows = np.concatenate([part.collectives for part in parts])
    rank = np.concatenate([np.full(len(part.collectives), part.rank, np.int64) for part in parts])
    group = np.empty(len(rows), np.int64)
    op = np.empty(len(rows), "<U24")
    phase = np.empty(len(rows), "<U24")
    offset = 0
    for part in parts:
        here = slice(offset, offset + len(part.collectives))
        offset = here.stop
        for i in np.unique(part.collectives["group"]):
            known = topology.named.get((part.rank, part.name(int(i))))
            name = known.id if known else f"other/{part.name(int(i))}"
            group[here][part.collectives["group"] == i] = ids.setdefault(name, len(ids))
        for i in np.unique(part.collectives["op"]):
            op[here][part.collectives["op"] == i] = part.name(int(i))
        for i in np.unique(part.collectives["phase"]):
            phase[here][part.collectives["phase"] == i] = part.name(int(i))
    peer, seq = rows["peer"].astype(np.int64), rows["seq"].astype(np.int64)
    return tuple(ids), Collectives(
        call=_calls(group=group, op=op, seq=seq, rank=rank, peer=peer),
        rank=rank,
        group=group,
        op=op,
        seq=seq,
        peer=peer,
        step=rows["step"].astype(np.int64),
        bytes=rows["bytes"].astype(np.int64),
        entry_s=rows["entry_ns"] * 1e-9,
        end_s=rows["end_ns"] * 1e-9,
        blocked_s=rows["blocked_ns"] * 1e-9,
        cpu_s=rows["cpu_ns"] * 1e-9,
        phase=phase,
    )


def _calls(*, group: Ints, op: NDArray[np.str_], seq: Ints, rank: Ints, peer: Ints) -> Ints:
    """Number the calls: same group, operation and sequence number; for send/recv also the same pair."""
    if not len(seq):
        return np.empty(0, np.int64)
    p2p = np.isin(op, ("send", "recv"))
    sender = np.where(p2p, np.where(op == "send", rank, peer), -1)
    receiver = np.where(p2p, np.where(op == "send", peer, rank), -1)
    kind = np.unique(np.where(p2p, "p2p", op), return_inverse=True)[1].reshape(-1)
    key = np.stack([group, kind, seq, sender, receiver], axis=1)
    return np.unique(key, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _events(parts: list[RankWindow]) -> tuple[RuntimeEvent, ...]:
    return tuple(
        RuntimeEvent(
            rank=part.rank,
            kind=part.name(int(row["kind"])),
            step=int(row["step"]),
            start_s=float(row["start_ns"]) * 1e-9,
            dur_s=float(row["dur_ns"]) * 1e-9,
            value=float(row["value"]),
        )
        for part in parts
        for row in part.events
    )


def _coverage(parts: list[RankWindow], ranks: Ints, step_s: Floats) -> Coverage:
    dropped: dict[str, int] = {}
    for part in parts:
        for reason, count in part.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    here = {part.rank for part in parts}
    missing = int(np.isnan(step_s).sum())
    return Coverage(
        ratio=1.0 - missing / step_s.size,
        missing_ranks=tuple(int(rank) for rank in ranks if int(rank) not in here),
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
