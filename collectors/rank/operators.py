"""The CPU twin of the kernel channel: one step's operators by torch.profiler, as KERNEL rows of role `cpu`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from argus.collectors.rank.claims import Claims
from argus.collectors.rank.recorder import WARMUP_STEPS, Recorder
from argus.collectors.rank.timeline import Timeline
from argus.collectors.records.events import FLAG_PROFILED, KERNEL, Rows

ROLE = "cpu"
ENGINE = "autograd::engine::evaluate_function: "

Ints = NDArray[np.int64]


class Event(Protocol):
    """An event of the profiler's result."""

    def name(self) -> str: ...

    def activity_type(self) -> str: ...

    def start_ns(self) -> int: ...

    def duration_ns(self) -> int: ...

    def start_thread_id(self) -> int: ...


class Profiler(Protocol):
    """The one profiler a process has; `operators.TorchProfiler`, or a fake."""

    def start(self) -> None: ...

    def stop(self) -> Callable[[], Sequence[Event]]:
        """Stop; what is returned reads the events later, on another thread."""


class TorchProfiler:
    """torch.profiler's engine, operators of the CPU only, no shapes, no stacks.

    Without what `torch.profiler.profile` does around it in Python: that changes what torch.compile sees.
    """

    def start(self) -> None:
        """Begin."""
        from torch.autograd import profiler

        how = profiler.profile(use_cpu=True, use_kineto=True)
        config = how.config()  # type: ignore[no-untyped-call]
        vars(profiler)["_prepare_profiler"](config, how.kineto_activities)
        vars(profiler)["_enable_profiler"](config, how.kineto_activities)

    def stop(self) -> Callable[[], Sequence[Event]]:
        """End; the list of events is made by the returned call."""
        from torch.autograd import profiler

        results = vars(profiler)["_disable_profiler"]()
        return lambda: cast(Sequence[Event], results.events())


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """One step's result, not read yet."""

    events: Callable[[], Sequence[Event]]
    timeline: Timeline


class Operators:
    """Starts and stops the profiler at step boundaries, on the training thread; reads it elsewhere."""

    def __init__(
        self, *, recorder: Recorder, claims: Claims, profiler: Profiler, wants: Callable[[int], bool]
    ) -> None:
        self._recorder = recorder
        self._claims = claims
        self._profiler = profiler
        self._wants = wants
        self._thread = 0
        self._timeline: Timeline | None = None
        self._done: list[Profiled] = []

    @property
    def is_running(self) -> bool:
        """Whether the profiler records now."""
        return self._timeline is not None

    def on_step(self, step: int) -> None:
        """A step begins."""
        self.stop()
        if step >= WARMUP_STEPS and self._wants(step):
            self._recorder.flag(FLAG_PROFILED)  # also where it cannot be profiled: the same on all ranks
            if not self._claims.is_claimed:
                self._start()

    def _start(self) -> None:
        with self._claims.ours():
            self._profiler.start()
        self._thread = threading.get_ident()
        self._timeline = self._recorder.timeline = Timeline()
        _end_before_fork()
        _RUNNING.append(self)

    def stop(self) -> None:
        """End a profile that runs: after the optimizer, before a fork, for somebody else's profiler.

        Nothing on another thread than the one it was started on, which alone can end it. The step that
        pays for the end is marked too.
        """
        timeline = self._timeline
        if timeline is None or threading.get_ident() != self._thread:
            return
        self._timeline = self._recorder.timeline = None
        _RUNNING.remove(self)
        with self._claims.ours():
            events = self._profiler.stop()
        self._recorder.flag(FLAG_PROFILED)
        self._done.append(Profiled(events=events, timeline=timeline))

    def read(self) -> None:
        """Turn finished profiles into rows; called by the writer thread."""
        while self._done:
            done = self._done.pop(0)
            ring = self._recorder.ring
            rows = rows_of(done.events(), timeline=done.timeline, intern=ring.intern)
            ring.put_block("kernels", rows)


_RUNNING: list[Operators] = []
"""Profiles that run now: at most one a process."""


def _stop_running() -> None:
    for operators in tuple(_RUNNING):
        operators.stop()


@cache
def _end_before_fork() -> None:
    """A forked child would go on recording for ever; a fork's hooks cannot be taken back, so once."""
    os.register_at_fork(before=_stop_running)


def rows_of(events: Sequence[Event], *, timeline: Timeline, intern: Callable[[str], int]) -> Rows:
    """KERNEL rows of the outermost operators of each thread; what they call is inside their time.

    Four of five events are inside another one: only the outermost are asked for their names, since each
    question is a call into C++ under the lock that the training thread waits for.
    """
    operators = [event for event in events if event.activity_type() == "cpu_op"]
    threads = np.array([event.start_thread_id() for event in operators], np.int64)
    starts = np.array([event.start_ns() for event in operators], np.int64)
    durations = np.array([event.duration_ns() for event in operators], np.int64)
    kept = outermost(threads, starts, durations)
    rows = np.zeros(len(kept), KERNEL)
    rows["start_ns"], rows["dur_ns"] = starts[kept], durations[kept]
    rows["name"] = [intern(_plain(operators[i].name())) for i in kept.tolist()]
    rows["role"] = intern(ROLE)
    rows["step"], rows["phase"] = timeline.at(starts[kept])
    return rows[rows["step"] >= 0]


def outermost(threads: Ints, starts: Ints, durations: Ints) -> Ints:
    """Indices of the intervals that lie in no other of their thread, in order of thread and start."""
    order = np.lexsort((-durations, starts, threads))
    kept = []
    for thread in np.unique(threads):
        mine = order[threads[order] == thread]
        ends = starts[mine] + durations[mine]
        before = np.concatenate([[-1], np.maximum.accumulate(ends)[:-1]])
        kept.append(mine[starts[mine] >= before])
    return np.concatenate(kept) if kept else np.empty(0, np.int64)


def _plain(name: str) -> str:
    """Backward operators by their own name, without the engine's."""
    return name.removeprefix(ENGINE)
