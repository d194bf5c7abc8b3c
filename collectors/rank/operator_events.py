"""PyTorch's own two profilers of operators, behind one interface; which of them is used is found out in the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

FUNCTION, BACKWARD_FUNCTION = 0, 1
"""RecordScope of operators; the others are annotations."""

YIELD_EVENTS = 64
"""Events read before the interpreter's lock is offered to the training thread."""

CLOCK_NS = 10**9
"""An operator that began further than this from where the host's clock saw it was not timed by that clock."""


class Event(Protocol):
    """An operator called by no other one. `start_time_ns` is of the host's wall clock."""

    @property
    def name(self) -> str: ...

    @property
    def start_time_ns(self) -> int: ...

    @property
    def duration_time_ns(self) -> int: ...


class Profiler(Protocol):
    """The one profiler a thread has; `TorchProfiler`, or a fake."""

    def start(self) -> None: ...

    def stop(self) -> Callable[[], Sequence[Event]]:
        """Stop; what is returned reads the events later, on another thread."""


class TorchProfiler:
    """The cheaper of the two that works in this PyTorch; found out at the first start."""

    def __init__(self) -> None:
        self._engine: Profiler | None = None

    def start(self) -> None:
        """Begin."""
        if self._engine is None:
            self._engine = ListProfiler() if _works(ListProfiler()) else TreeProfiler()
        self._engine.start()

    def stop(self) -> Callable[[], Sequence[Event]]:
        """End; the operators are read by the returned call."""
        if self._engine is None:
            raise RuntimeError("no profile was started")
        return self._engine.stop()


class TreeProfiler:
    """torch.profiler's engine, operators of the CPU only, no shapes, no stacks, no annotations.

    Without what `torch.profiler.profile` does around it in Python: that changes what torch.compile sees. What is
    read is the roots of its tree of calls: the list of all events has five times as many, and each question about
    one is a call into C++ under the lock that the training thread waits for.
    """

    def start(self) -> None:
        """Begin."""
        from torch._C._profiler import RecordScope
        from torch.autograd import profiler

        how = profiler.profile(use_cpu=True, use_kineto=True)
        config = how.config()  # type: ignore[no-untyped-call]
        vars(profiler)["_prepare_profiler"](config, how.kineto_activities)
        scopes = {RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION}
        vars(profiler)["_enable_profiler"](config, how.kineto_activities, scopes)

    def stop(self) -> Callable[[], Sequence[Event]]:
        """End; the operators are read by the returned call."""
        from torch.autograd import profiler

        results = vars(profiler)["_disable_profiler"]()
        return lambda: cast(Sequence[Event], results.experimental_event_tree())


class Root(NamedTuple):
    """An operator called by no other one."""

    name: str
    start_time_ns: int
    duration_time_ns: int


class ListProfiler:
    """The autograd profiler from before torch.profiler: a list of what began and ended, per thread.

    Its end costs the training thread a third of the other's, which makes a trace first: 6 ms against 17 for the
    4,000 operators of a small transformer's step. PyTorch may take it away one day.
    """

    def start(self) -> None:
        """Begin."""
        from torch import autograd
        from torch._C._profiler import _ExperimentalConfig

        names, flags = vars(autograd), (False,) * 5  # shapes, memory, stacks, flops, modules
        config = names["ProfilerConfig"](names["ProfilerState"].CPU, *flags, _ExperimentalConfig())
        names["_enable_profiler_legacy"](config)

    def stop(self) -> Callable[[], Sequence[Event]]:
        """End; the operators are read by the returned call."""
        from torch import autograd

        lists = vars(autograd)["_disable_profiler_legacy"]()
        return lambda: [root for events in lists for root in roots_of(events)]


def roots_of(events: list[Any]) -> list[Root]:
    """Operators of a thread's list that no other one called; the list is empty afterwards.

    What is read is let go at once: a list that is dropped whole holds the interpreter's lock for milliseconds.
    """
    found: list[Root] = []
    begun: Any = None
    events.reverse()
    for number in range(len(events)):
        if number % YIELD_EVENTS == 0:
            time.sleep(0)
        event = events.pop()
        kind = event.kind()
        if begun is None:
            is_operator = kind == "push" and event.scope() in (FUNCTION, BACKWARD_FUNCTION)
            begun = event if is_operator and not event.is_async() else None
        elif kind == "pop" and event.handle() == begun.handle():
            start_us = begun.start_us()
            took_ns = round((event.start_us() - start_us) * 1e3)
            found.append(Root(begun.name(), round(start_us * 1e3), took_ns))
            begun = None
    return found


def _works(profiler: Profiler) -> bool:
    """Whether it sees an operator, at the host's time."""
    import torch

    now_ns = time.time_ns()
    try:
        profiler.start()
        torch.empty(0)
        seen = profiler.stop()()
    except Exception:  # noqa: BLE001 a PyTorch without it, or with another one: its neighbour is asked
        return False
    return bool(seen) and abs(seen[0].start_time_ns - now_ns) < CLOCK_NS
