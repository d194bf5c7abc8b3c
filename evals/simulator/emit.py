"""A timeline as the records each rank's collector would have written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import (
    CLOCK_GPU,
    CLOCK_WALL,
    COLLECTIVE,
    EVENT,
    FLAG_CHECKPOINT,
    FLAG_WARMUP,
    PHASE,
    PHASES,
    STEP,
    RankRecords,
    Rows,
)
from argus.collectors.records.layout import Layout
from argus.evals.simulator.costs import FORWARD_SEGMENTS, Costs
from argus.evals.simulator.groups import Groups, dp_groups, tp_groups
from argus.evals.simulator.job import Job
from argus.evals.simulator.kernel_rows import kernel_rows, kernel_texts
from argus.evals.simulator.timeline import Timeline, elapsed

NATIVE = {
    "data": "DataLoader.__next__",
    "forward": "GPT.forward",
    "backward": "Tensor.backward",
    "optimizer": "AdamW.step",
    "checkpoint": "checkpoint",
    "grad_sync": "DistributedDataParallel",
}
EVENT_KINDS = ("gc", "loader_wait", "mark:checkpoint")
WAITING_CPU_SHARE = 0.02
"""CPU time of a thread that stands in a collective, per second."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What one rank's rows are made of; `offset_ns` is the job's start on the rank's own clock."""

    job: Job
    costs: Costs
    times: Timeline
    names: tuple[str, ...]
    rank: int
    offset_ns: int

    def ns(self, seconds: Floats) -> Ints:
        """Clock readings of the rank; all `seconds` finite."""
        return np.asarray(np.rint(seconds * 1e9).astype(np.int64) + self.offset_ns)

    def rows(self, dtype: np.dtype[Any], *, until: Floats, **columns: object) -> Rows:
        """Rows of what has ended. `until` (step,) are the ends; the columns are (step,) or one value."""
        ended = np.isfinite(until)
        rows = np.zeros(int(ended.sum()), dtype)
        rows["step"] = np.flatnonzero(ended)
        for name, value in columns.items():
            if isinstance(value, str):
                rows[name] = self.names.index(value)
            elif not isinstance(value, np.ndarray):
                rows[name] = value
            else:
                part = value[ended]
                is_time = name in ("start_ns", "end_ns", "entry_ns")
                rows[name] = self.ns(part) if is_time else _scaled(name, part)
        return rows


def clock_offsets(job: Job, rng: np.random.Generator) -> Ints:
    """Each rank's clock reading at the job's start; ranks of a host share a clock. (rank,)"""
    hosts = np.arange(job.ranks) // job.ranks_per_host
    skew_s = rng.normal(0, job.clock_offset_s, int(hosts.max()) + 1)[hosts]
    return np.asarray(np.rint(skew_s * 1e9).astype(np.int64) + round(job.start_s * 1e9))


def string_table(job: Job) -> tuple[str, ...]:
    """Every string the job's records use, the empty one first."""
    groups = [kind for kind in (dp_groups(job), tp_groups(job)) if kind is not None]
    texts = ("", *PHASES, *NATIVE.values(), "all_reduce", *EVENT_KINDS, *kernel_texts(job.kernels))
    return tuple(dict.fromkeys((*texts, *(name for kind in groups for name in kind.names))))


def rank_records(source: Source, layout: Layout, *, lost: NDArray[np.bool_]) -> RankRecords:
    """One rank's records without those of the `lost` steps. (step,)"""
    rows = {
        "steps": _steps(source),
        "phases": _phases(source),
        "collectives": _collectives(source),
        "events": _events(source),
        "kernels": _kernels(source),
    }
    kept = {name: part[~lost[part["step"]]] for name, part in rows.items()}
    num_lost = len(rows["steps"]) - len(kept["steps"])
    return RankRecords(
        layout=layout, names=source.names, dropped={"ring_full": num_lost} if num_lost else {}, **kept
    )


def _scaled(name: str, values: NDArray[Any]) -> NDArray[Any]:
    return np.rint(values * 1e9) if name.endswith("_ns") else values


def _steps(source: Source) -> Rows:
    job, times, rank = source.job, source.times, source.rank
    rows = source.rows(
        STEP, until=times.end[:, rank], user_step=-1, start_ns=times.start[:, rank], end_ns=times.end[:, rank]
    )
    step = rows["step"]
    cpu = source.costs.cpu[step, :, rank].sum(axis=1)
    work = source.costs.wall[step, :, rank].sum(axis=1)
    waiting = (times.end[step, rank] - times.start[step, rank]) - work
    rows["cpu_ns"] = np.rint((cpu + WAITING_CPU_SHARE * waiting) * 1e9)
    rows["flags"] = np.where(step < job.warmup_steps, FLAG_WARMUP, 0)
    rows["flags"] |= np.where(source.costs.checkpoint_s[step, rank] > 0, FLAG_CHECKPOINT, 0).astype("u4")
    return rows


def _phases(source: Source) -> Rows:
    times, rank, cpu = source.times, source.rank, source.costs.cpu[:, :, source.rank]
    begin_backward = 1 + FORWARD_SEGMENTS
    tp = elapsed(times.tp_entry[:, :, rank], times.tp_end[:, :, rank])
    edges = [t[:, rank] for t in (times.start, times.data, times.forward, times.backward, times.optimizer)]
    synced = elapsed(times.ready[:, rank], times.backward[:, rank])
    none = np.zeros(source.job.steps)
    waits = (none, tp[:, :FORWARD_SEGMENTS].sum(axis=1), tp[:, FORWARD_SEGMENTS:].sum(axis=1) + synced, none)
    work = (cpu[:, 0], cpu[:, 1:begin_backward].sum(1), cpu[:, begin_backward:-1].sum(1), cpu[:, -1])
    parts = [
        _phase(source, name, start=edges[i], end=edges[i + 1], wait=waits[i], cpu=work[i])
        for i, name in enumerate(("data", "forward", "backward", "optimizer"))
    ]
    ready = times.ready[:, rank]
    parts.append(_phase(source, "grad_sync", start=ready, end=edges[3], wait=synced, cpu=none))
    parts[-1]["depth"] = 1
    saving = np.where(source.costs.checkpoint_s[:, rank] > 0, times.end[:, rank], np.inf)
    parts.append(_phase(source, "checkpoint", start=edges[4], end=saving, wait=none, cpu=none))
    rows = np.concatenate(parts)
    return rows[np.lexsort((rows["start_ns"], rows["step"]))]


def _phase(source: Source, name: str, *, start: Floats, end: Floats, wait: Floats, cpu: Floats) -> Rows:
    on_gpu = source.job.gpu and name not in ("data", "checkpoint")
    return source.rows(
        PHASE,
        until=end,
        name=name,
        native=NATIVE[name],
        start_ns=start,
        dur_ns=elapsed(start, end),
        wait_ns=wait,
        cpu_ns=cpu + WAITING_CPU_SHARE * wait,
        clock=CLOCK_GPU if on_gpu else CLOCK_WALL,
        chunk=-1,
        micro_batch=-1,
    )


def _collectives(source: Source) -> Rows:
    job, times, rank = source.job, source.times, source.rank
    dp, tp = dp_groups(job), tp_groups(job)
    parts = []
    for bucket in range(job.buckets):
        entry, end = times.dp_entry[:, bucket, rank], times.dp_end[:, bucket, rank]
        is_last = bucket == job.buckets - 1
        synced = elapsed(times.ready[:, rank], times.backward[:, rank])
        blocked = synced if is_last else np.zeros(job.steps)
        call = _Call(entry=entry, end=end, blocked=blocked, number=bucket, per_step=job.buckets)
        parts.append(_call_rows(source, dp, call, phase="backward"))
    for number in range(times.tp_entry.shape[1] if tp else 0):
        entry, end = times.tp_entry[:, number, rank], times.tp_end[:, number, rank]
        call = _Call(
            entry=entry, end=end, blocked=elapsed(entry, end), number=number, per_step=times.tp_entry.shape[1]
        )
        phase = "forward" if number < FORWARD_SEGMENTS else "backward"
        assert tp is not None
        parts.append(_call_rows(source, tp, call, phase=phase))
    rows = np.concatenate(parts)
    return rows[np.argsort(rows["entry_ns"], kind="stable")]


@dataclass(frozen=True, kw_only=True)
class _Call:
    entry: Floats
    end: Floats
    blocked: Floats
    number: int
    per_step: int


def _call_rows(source: Source, groups: Groups, call: _Call, *, phase: str) -> Rows:
    rows = source.rows(
        COLLECTIVE,
        until=call.end,
        op="all_reduce",
        group=groups.names[int(groups.of_rank[source.rank])],
        peer=-1,
        bytes=source.job.bucket_bytes,
        entry_ns=call.entry,
        end_ns=call.end,
        blocked_ns=call.blocked,
        cpu_ns=WAITING_CPU_SHARE * call.blocked,
        phase=phase,
    )
    rows["seq"] = rows["step"] * call.per_step + call.number
    return rows


def _events(source: Source) -> Rows:
    costs, times, rank = source.costs, source.times, source.rank
    start, data, forward = (t[:, rank] for t in (times.start, times.data, times.forward))
    gc_s, saving_s = costs.gc_s[:, rank], costs.checkpoint_s[:, rank]
    parts = [
        source.rows(EVENT, until=data, kind="loader_wait", start_ns=start, dur_ns=elapsed(start, data)),
        source.rows(
            EVENT,
            until=np.where(gc_s > 0, forward, np.inf),
            kind="gc",
            start_ns=data,
            dur_ns=gc_s,
            value=2.0,
        ),
        source.rows(
            EVENT,
            until=np.where(saving_s > 0, times.end[:, rank], np.inf),
            kind="mark:checkpoint",
            start_ns=times.optimizer[:, rank],
            dur_ns=saving_s,
        ),
    ]
    rows = np.concatenate(parts)
    return rows[np.argsort(rows["start_ns"], kind="stable")]


def _kernels(source: Source) -> Rows:
    ended = np.flatnonzero(np.isfinite(source.times.backward[:, source.rank]))
    work_s = source.costs.wall[ended][:, source.costs.compute, source.rank].sum(axis=1)
    start = source.ns(source.times.data[ended, source.rank])
    return kernel_rows(source.names, source.job.kernels, steps=ended, start_ns=start, work_s=work_s)
