"""Phase rows of one rank: wall time of the training thread, or GPU time where the GPU did the work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._columns import Columns
from argus.collectors.readers._intervals import Spans, both, rest, union
from argus.collectors.readers._timeline import Segments, Steps
from argus.collectors.records.events import CLOCK_GPU, CLOCK_WALL

Ints = NDArray[np.int64]

_ON_GPU = ("forward", "backward", "optimizer")


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """Pieces of phases, each in one step; self time = dur - wait. Shapes (piece,)."""

    step: Ints
    phase: tuple[str, ...]
    native: tuple[str, ...]
    start_ns: Ints
    dur_ns: Ints
    wait_ns: Ints
    clock: Ints


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the machine was busy with. Kernel arrays have shape (kernel,), times in ns."""

    comm: Spans
    stood_still: Spans  # the training thread blocked in the driver, or idle on a CPU-only rank
    is_gpu: bool
    kernel_start: Ints
    kernel_end: Ints
    kernel_launch: Ints


def find_work(columns: Columns, *, launched: Ints, comm: Spans, steps: Steps) -> Work:
    """Kernels of the busiest compute stream, and when the thread stood still."""
    kernels = columns.kernels.rows()
    compute = kernels[:, 5] == 0
    streams, inverse = np.unique(kernels[compute, 2], return_inverse=True)
    busy = np.bincount(inverse.reshape(-1), kernels[compute, 1], minlength=1)
    main = np.flatnonzero(compute)[inverse.reshape(-1) == int(busy.argmax())] if len(streams) else []
    rows, launch = kernels[main], launched[main]
    order = np.argsort(rows[:, 0], kind="stable")
    return Work(
        comm=comm,
        stood_still=_stood_still(columns, steps),
        is_gpu=len(rows) > 0,
        kernel_start=rows[order, 0],
        kernel_end=rows[order, 0] + rows[order, 1],
        kernel_launch=launch[order],
    )


def _stood_still(columns: Columns, steps: Steps) -> Spans:
    """When the thread was blocked in the driver; on a rank without kernels, when it ran no operation."""
    if len(columns.kernels):
        blocked = columns.blocked.rows()
        return union(blocked[:, 0], blocked[:, 1])
    ops = columns.ops.rows()
    return rest(union(steps.start, steps.end), union(ops[:, 0], ops[:, 1]))


def phase_times(segments: Segments, steps: Steps, work: Work) -> PhaseTimes:
    """Every piece of every phase; forward, backward and optimizer on the GPU's clock if it ran them."""
    at = steps.at(segments.start)
    waiting = both(work.comm, work.stood_still)
    start, end = segments.start.copy(), segments.end.copy()
    wait = waiting.within(start, end)
    if work.is_gpu:
        # Un-named time blocked in the driver is the GPU's work showing, which its own phases count.
        wait = np.where(np.array(segments.phase) == "other", work.stood_still.within(start, end), wait)
    ran = _on_gpu(segments, work)
    start[ran.segment], end[ran.segment] = ran.start, ran.end
    wait[ran.segment] = _exposed(work, waiting, start=ran.start, end=ran.end)
    clock = np.full(len(start), CLOCK_WALL)
    clock[ran.segment] = CLOCK_GPU
    dur = end - start
    return PhaseTimes(
        step=steps.number[at],
        phase=segments.phase,
        native=segments.native,
        start_ns=start,
        dur_ns=dur,
        wait_ns=np.minimum(wait, dur),
        clock=clock,
    )


@dataclass(frozen=True, kw_only=True)
class _OnGpu:
    """Segments whose kernels ran on the compute stream, first start to last end. (segment with kernels,)"""

    segment: Ints
    start: Ints
    end: Ints


def _on_gpu(segments: Segments, work: Work) -> _OnGpu:
    held = segments.at(work.kernel_launch)
    counts = np.isin(np.array([*segments.phase, ""]), _ON_GPU)[held]
    order = np.argsort(held[counts], kind="stable")
    segment, first = np.unique(held[counts][order], return_index=True)
    if not len(segment):
        none = np.empty(0, np.int64)
        return _OnGpu(segment=none, start=none, end=none)
    return _OnGpu(
        segment=segment,
        start=np.minimum.reduceat(work.kernel_start[counts][order], first),
        end=np.maximum.reduceat(work.kernel_end[counts][order], first),
    )


def _exposed(work: Work, waiting: Spans, *, start: Ints, end: Ints) -> Ints:
    """Part of each [start, end) in which the compute stream stood idle because of communication.

    A gap before a kernel that was already launched is the stream's own wait; before the launch it is a
    wait only while the thread itself stood still for a collective.
    """
    if not len(start):
        return start
    begins = work.kernel_start[1:]
    done = np.maximum.accumulate(work.kernel_end)[:-1]
    launch = np.clip(work.kernel_launch[1:], done, np.maximum(begins, done))
    gaps = work.comm.within(launch, begins) + waiting.within(done, launch)
    before = np.concatenate([[0, 0], np.cumsum(gaps)])  # waits before kernel 0, 1, …
    first = np.searchsorted(work.kernel_start, start, side="left")
    last = np.searchsorted(work.kernel_start, end, side="left") - 1
    exposed: Ints = before[last + 1] - before[first + 1]
    return exposed
