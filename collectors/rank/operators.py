"""The CPU twin of the kernel channel: one step's operators by torch.profiler, as KERNEL rows of role `cpu`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from argus.collectors.rank.claims import Claims
from argus.collectors.rank.recorder import WARMUP_STEPS, Recorder
from argus.collectors.rank.timeline import Timeline
from argus.collectors.records.events import FLAG_PROFILED, KERNEL, Rows

ROLE = "cpu"
ENGINE = "autograd::engine::evaluate_function: "


class Operator(NamedTuple):
    """An operator called by no other one; `start_time_ns` of the host's wall clock."""

    name: str
    start_time_ns: int
    duration_time_ns: int


class Profiler(Protocol):
    """The one profiler a thread has; `TorchProfiler`, or a fake.

    What it recorded is read where it is stopped, on the training thread: a thread beside it takes the interpreter's
    lock from it a few milliseconds at a time, which costs the step two to three times as much as reading itself.
    """

    def start(self) -> None: ...

    def stop(self) -> list[Operator]: ...


class TorchProfiler:
    """torch.profiler's engine, operators of the CPU only, no shapes, no stacks, no annotations.

    Without what `torch.profiler.profile` does around it in Python: that changes what torch.compile sees. What is
    read is the roots of its tree of calls: the list of all events has five times as many.
    """

    def start(self) -> None:
        """Begin."""
        from torch._C._profiler import RecordScope
        from torch.autograd import profiler

        how = profiler.profile(use_cpu=True, use_kineto=True)
        config = how.config()  # type: ignore[no-untyped-call]
        vars(profiler)["_prepare_profiler"](config, how.kineto_activities)
        # The engine's call of a backward operator is a FUNCTION too, and the operator below it its only child.
        vars(profiler)["_enable_profiler"](config, how.kineto_activities, {RecordScope.FUNCTION})

    def stop(self) -> list[Operator]:
        """End."""
        from torch.autograd import profiler

        roots = vars(profiler)["_disable_profiler"]().experimental_event_tree()
        return [Operator(one.name, one.start_time_ns, one.duration_time_ns) for one in roots]


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """One step's result."""

    found: list[Operator]
    timeline: Timeline


class Operators:
    """Starts and stops the profiler at step boundaries, on the training thread; makes rows elsewhere."""

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
            found = self._profiler.stop()
        self._recorder.flag(FLAG_PROFILED)
        self._done.append(Profiled(found=found, timeline=timeline))

    def read(self) -> None:
        """Turn finished profiles into rows; called by the writer thread."""
        while self._done:
            done = self._done.pop(0)
            ring = self._recorder.ring
            rows = rows_of(done.found, timeline=done.timeline, intern=ring.intern)
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


def rows_of(found: Sequence[Operator], *, timeline: Timeline, intern: Callable[[str], int]) -> Rows:
    """KERNEL rows of operators called by no other one; what they call is inside their time."""
    rows = np.zeros(len(found), KERNEL)
    rows["start_ns"] = [one.start_time_ns for one in found]
    rows["dur_ns"] = [one.duration_time_ns for one in found]
    rows["name"] = [intern(_plain(one.name)) for one in found]
    rows["role"] = intern(ROLE)
    rows["step"], rows["phase"] = timeline.at(rows["start_ns"])
    return rows[rows["step"] >= 0]


def _plain(name: str) -> str:
    """Backward operators by their own name, without the engine's."""
    return name.removeprefix(ENGINE)
