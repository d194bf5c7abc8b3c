"""A timeline as the rows each rank's collector would have written, for all ranks of a stage at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from argus.analytics.window import Bools, Floats, Ints
from argus.collectors.records.events import (
    CLOCK_GPU,
    CLOCK_WALL,
    COLLECTIVE,
    EVENT,
    FLAG_CHECKPOINT,
    FLAG_EVAL,
    FLAG_WARMUP,
    PHASE,
    STEP,
    Rows,
)
from argus.evals.simulator.clocks import Clocks
from argus.evals.simulator.costs import Costs
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.host_use import HostUse
from argus.evals.simulator.job import Job
from argus.evals.simulator.names import Names
from argus.evals.simulator.program import (
    JOIN,
    LAUNCH,
    MEET,
    NORM,
    PAUSE,
    PAUSES,
    RECV,
    SEND,
    WORK,
    Op,
    Span,
    program_of,
)
from argus.evals.simulator.timeline import Timeline, elapsed
from argus.evals.simulator.work import told_work

WAITING_CPU_SHARE = 0.02
"""CPU time of a thread that stands in a collective, per second."""

BLOCKING = (MEET, JOIN, RECV, NORM)
COLLECTIVES = (MEET, LAUNCH, SEND, RECV, NORM)
PAUSE_FLAGS = {"checkpoint": FLAG_CHECKPOINT, "eval": FLAG_EVAL}

Table = tuple[Rows, Bools]
"""Rows (rank, step, row of the step) and which of them there are."""


@dataclass(frozen=True, kw_only=True)
class Emitter:
    """Everything the rows of one stage over the steps of one timeline are made of.

    `lost` (step, rank) over the whole job: steps whose records were dropped.
    """

    job: Job
    costs: Costs
    clocks: Clocks
    names: Names
    times: Timeline
    stage: int
    lost: Bools
    host_use: HostUse

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The stage's program."""
        return program_of(self.job).stages[self.stage]

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The stage's operations."""
        return program_of(self.job).ops(self.stage)

    @cached_property
    def ranks(self) -> slice:
        """The stage's ranks."""
        return slice(*shape_of(self.job).stages[self.stage])

    @cached_property
    def entry(self) -> Floats:
        """(rank, step, operation)"""
        return np.ascontiguousarray(self.times.entry[self.stage].transpose(2, 0, 1))

    @cached_property
    def end(self) -> Floats:
        """(rank, step, operation)"""
        return np.ascontiguousarray(self.times.end[self.stage].transpose(2, 0, 1))

    @cached_property
    def seen(self) -> Bools:
        """Steps whose records were kept. (rank, step)"""
        return np.asarray(~self.lost[self.times.steps, self.ranks].T)

    @cached_property
    def step(self) -> Ints:
        """Number of each step. (step,)"""
        return np.arange(self.times.steps.start, self.times.steps.stop)

    def own(self, values: Floats) -> Floats:
        """A cost (step, …, rank) of this stage's ranks and steps, rank first."""
        return np.moveaxis(values[self.times.steps][..., self.ranks], -1, 0)

    def ns(self, seconds: Floats) -> Ints:
        """Clock readings; what never ends reads 0."""
        safe = np.where(np.isfinite(seconds), seconds, 0.0)
        return self.clocks.read(safe, ranks=self.ranks, steps=self.times.steps)

    def blocked(self) -> Floats:
        """How long each operation held the rank up. (rank, step, operation)"""
        is_blocking = np.array([op.kind in BLOCKING for op in self.ops])
        return np.where(is_blocking, elapsed(self.entry, self.end), 0.0)


def step_rows(source: Emitter) -> Table:
    """STEP rows, one a step."""
    times, job = source.times, source.job
    start, end = times.start_s[:, source.ranks].T, times.end_s[:, source.ranks].T
    rows = np.zeros((*start.shape, 1), STEP)
    rows["step"] = source.step[None, :, None]
    rows["user_step"] = -1
    rows["start_ns"][..., 0], rows["end_ns"][..., 0] = source.ns(start), source.ns(end)
    work = source.own(source.costs.wall).sum(axis=2)
    waiting = elapsed(start + np.where(np.isfinite(work), work, 0.0), end)
    rows["cpu_ns"][..., 0] = _rint(source.own(source.costs.cpu).sum(axis=2) + WAITING_CPU_SHARE * waiting)
    rows["flags"] |= np.where(source.step < job.warmup_steps, FLAG_WARMUP, 0).astype("u4")[None, :, None]
    for name, flag in PAUSE_FLAGS.items():
        rows["flags"][..., 0] |= np.where(source.own(source.costs.pauses[name]) > 0, flag, 0).astype("u4")
    return rows, (np.isfinite(end) & source.seen)[..., None]


def _rint(seconds: Floats) -> Floats:
    return np.rint(np.where(np.isfinite(seconds), seconds, 0.0) * 1e9)


def phase_rows(source: Emitter) -> Table:
    """PHASE rows in order of their start: one a span, and one inside backward for joining gradients."""
    spans, blocked = source.spans, source.blocked()
    joins = [n for n, op in enumerate(source.ops) if op.kind == JOIN]
    shape = (*source.entry.shape[:2], len(spans) + bool(joins))
    rows, start, end = np.zeros(shape, PHASE), np.zeros(shape), np.zeros(shape)
    there = np.ones(shape, np.bool_)
    rows["step"] = source.step[None, :, None]
    first = 0
    for n, span in enumerate(spans):
        after = first + len(span.ops)
        start[..., n], end[..., n] = source.entry[..., first], source.end[..., after - 1]
        if span.ops[-1].kind in (LAUNCH, SEND):  # what is under way does not hold the phase open
            end[..., n] = np.where(np.isfinite(end[..., n]), source.entry[..., after - 1], np.inf)
        wait = blocked[..., first:after].sum(axis=2)
        if span.ops[0].kind == PAUSE:  # what is not its own saving or evaluating, it stands in the barrier
            own = source.own(source.costs.pauses[span.ops[0].name])
            wait = np.maximum(elapsed(start[..., n], end[..., n]) - own, 0.0)
        slots = [op.slot for op in span.ops if op.kind == WORK]
        cpu = source.own(source.costs.cpu)[..., slots].sum(axis=2)
        _phase_columns(rows[..., n], source, span, wait=wait, cpu=cpu)
        if span.ops[0].kind == PAUSE:
            there[..., n] = source.own(source.costs.pauses[span.ops[0].name]) > 0
        first = after
    if joins:
        start[..., -1], end[..., -1] = source.entry[..., joins[0]], source.end[..., joins[-1]]
        span = Span(phase="grad_sync", native=source.names.native("grad_sync"), ops=())
        wait = elapsed(start[..., -1], end[..., -1])
        _phase_columns(rows[..., -1], source, span, wait=wait, cpu=np.zeros(wait.shape))
        rows["depth"][..., -1] = 1
    rows["start_ns"] = source.ns(start)
    rows["dur_ns"] = _rint(elapsed(start, end))
    return _in_order(rows, there & np.isfinite(end) & source.seen[..., None], by="start_ns")


def _phase_columns(rows: Rows, source: Emitter, span: Span, *, wait: Floats, cpu: Floats) -> None:
    on_gpu = source.job.gpu and span.phase not in ("data", *PAUSES)
    rows["name"], rows["native"] = source.names[span.phase], source.names[span.native]
    rows["wait_ns"] = _rint(wait)
    rows["cpu_ns"] = _rint(cpu + WAITING_CPU_SHARE * wait)
    rows["clock"] = CLOCK_GPU if on_gpu else CLOCK_WALL
    rows["chunk"], rows["micro_batch"] = span.chunk, span.micro_batch


def _in_order(rows: Rows, there: Bools, *, by: str) -> Table:
    """Rows of each step sorted by a time; ties keep their order."""
    if (np.diff(rows[by], axis=2) >= 0).all():
        return rows, there
    order = np.argsort(rows[by], axis=2, kind="stable")
    return np.take_along_axis(rows, order, axis=2), np.take_along_axis(there, order, axis=2)


def collective_rows(source: Emitter) -> Table:
    """COLLECTIVE rows in order of entry."""
    job, ops = source.job, source.ops
    chosen = [n for n, op in enumerate(ops) if op.kind in COLLECTIVES]
    entry, end = source.entry[..., chosen], source.end[..., chosen]
    blocked = np.where(_ends_a_join(ops, chosen), 0.0, source.blocked()[..., chosen])
    for place, joined in _joins(ops, chosen):
        blocked[..., place] = elapsed(source.entry[..., joined], source.end[..., joined])
    rows = np.zeros(entry.shape, COLLECTIVE)
    rows["step"] = source.step[None, :, None]
    phase_of = [span.phase for span in source.spans for _ in span.ops]
    size = source.ranks.stop - source.ranks.start
    for place, n in enumerate(chosen):
        op, row = ops[n], rows[..., place]
        row["op"], row["group"] = source.names[op.name], source.names.group(op.group)
        row["phase"] = source.names[phase_of[n]]
        row["seq"] = source.step[None, :] * program_of(job).num_calls[op.group] + op.slot
        row["peer"] = -1
        if op.to >= 0:
            row["peer"] = (np.arange(source.ranks.start, source.ranks.stop) + (op.to - source.stage) * size)[
                :, None
            ]
    rows["bytes"] = job.bucket_bytes
    rows["entry_ns"], rows["end_ns"] = source.ns(entry), source.ns(end)
    rows["blocked_ns"], rows["cpu_ns"] = _rint(blocked), _rint(WAITING_CPU_SHARE * blocked)
    return _in_order(rows, np.isfinite(end) & source.seen[..., None], by="entry_ns")


def _joins(ops: tuple[Op, ...], chosen: list[int]) -> list[tuple[int, int]]:
    """Row of the last call launched of each kind, and the operation that waits for it."""
    found = []
    for n, op in enumerate(ops):
        if op.kind == JOIN:
            launched = [p for p, m in enumerate(chosen) if ops[m].kind == LAUNCH and ops[m].group == op.name]
            found.append((launched[-1], n))
    return found


def _ends_a_join(ops: tuple[Op, ...], chosen: list[int]) -> Bools:
    return np.array([ops[n].kind == LAUNCH for n in chosen], np.bool_)


def event_rows(source: Emitter) -> Table:
    """EVENT rows in order of their start."""
    costs = source.costs
    data_end = source.end[..., 0]
    backward = max(n for n, op in enumerate(source.ops) if op.kind == WORK and op.slot < _optimizer(source))
    gc_s, compile_s = source.own(costs.gc_s), source.own(costs.compile_s)
    retries = source.own(costs.retries)
    rows: list[tuple[str, Floats, Floats, Floats | float, Bools]] = [
        ("loader_wait", source.entry[..., 0], elapsed(source.entry[..., 0], data_end), 0.0, gc_s >= 0),
        ("gc", data_end, gc_s, 2.0, gc_s > 0),
        ("compile", source.end[..., backward] - compile_s, compile_s, 1.0, compile_s > 0),
        ("alloc_retry", source.entry[..., backward], np.zeros(gc_s.shape), retries, retries > 0),
    ]
    for name in PAUSES:
        at = next(n for n, op in enumerate(source.ops) if op.kind == PAUSE and op.name == name)
        pause = source.own(costs.pauses[name])
        rows.append((f"mark:{name}", source.entry[..., at], pause, 0.0, pause > 0))
    for unit, amount in _told(source).items():
        rows.append((f"work:{unit}", data_end, np.zeros(gc_s.shape), amount, gc_s >= 0))
    table = np.zeros((*gc_s.shape, len(rows)), EVENT)
    table["step"] = source.step[None, :, None]
    there = np.zeros(table.shape, np.bool_)
    for n, (kind, start, duration, value, present) in enumerate(rows):
        table["kind"][..., n], table["value"][..., n] = source.names[kind], value
        table["start_ns"][..., n], table["dur_ns"][..., n] = source.ns(start), _rint(duration)
        there[..., n] = present & np.isfinite(start + duration) & source.seen
    return _in_order(table, there, by="start_ns")


def _optimizer(source: Emitter) -> int:
    return int(source.costs.wall.shape[1]) - 1


def _told(source: Emitter) -> Mapping[str, Floats]:
    told = told_work(source.job, source.costs.work, source.times.steps)
    return {unit: np.asarray(amount[:, source.ranks].T) for unit, amount in told.items()}


def kept(table: Table, rank: int) -> Rows:
    """One rank's rows, flat. `rank` counts from the stage's first."""
    rows: np.ndarray[Any, np.dtype[np.void]] = table[0][rank].reshape(-1)
    there = table[1][rank].reshape(-1)
    return rows if there.all() else rows[there]
