"""Megatron-LM's timers: the same names at every log level, without the synchronise of its own.

`timers("forward-compute", log_level=2).start()` is called whatever the level; below it Megatron hands out
a dummy. Ours records the phase and passes every call on, so that Megatron's own logs stay as they were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Protocol

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Native
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session

NEEDS = "megatron.core.timers"

MICRO_BATCHED = frozenset({"forward-compute", "backward-compute"})


class MegatronTimer(Protocol):
    """What `Timers.__call__` returns."""

    def start(self, barrier: bool = False) -> None: ...

    def stop(self, barrier: bool = False) -> None: ...


def install(session: Session, part: Part) -> None:
    """Wrap `Timers.__call__`."""
    timers_type = sys.modules[NEEDS].Timers
    observed: dict[str, ObservedTimer] = {}
    native = Native(session, part)
    counts = MicroBatches(session)
    original: Callable[..., MegatronTimer] = timers_type.__call__

    @wraps(original)
    def call(timers: object, name: str, *args: object, **kwargs: object) -> object:
        timer = original(timers, name, *args, **kwargs)
        if not part.is_on:
            return timer
        known = observed.get(name)
        if known is None or known.timer is not timer:
            known = observed[name] = ObservedTimer(timer, name, native=native, part=part, counts=counts)
        return known

    part.patch(timers_type, "__call__", call)


class MicroBatches:
    """How many forwards and backwards the step has seen."""

    def __init__(self, session: Session) -> None:
        self._recorder = session.recorder
        self._step = -1
        self._seen: dict[str, int] = {}

    def next(self, name: str) -> int:
        """Index of the micro-batch whose `name` starts now."""
        step = self._recorder.current_step
        if step != self._step:
            self._step, self._seen = step, {}
        index = self._seen.get(name, 0)
        self._seen[name] = index + 1
        return index


class ObservedTimer:
    """A Megatron timer whose start and stop are also a phase."""

    def __init__(
        self, timer: MegatronTimer, name: str, *, native: Native, part: Part, counts: MicroBatches
    ) -> None:
        self.timer = timer
        self._name = name
        self._native = native
        self._counts = counts
        self._frames: list[Frame | None] = []
        self._open, self._close = part.guard(self._begin), part.guard(self._end)

    def start(self, barrier: bool = False) -> None:
        """Open the phase, then do what Megatron does."""
        self._open()
        self.timer.start(barrier=barrier)

    def stop(self, barrier: bool = False) -> None:
        """Close the phase before Megatron synchronises, if it does."""
        self._close()
        self.timer.stop(barrier=barrier)

    def __getattr__(self, name: str) -> object:
        return getattr(self.timer, name)

    def _begin(self) -> None:
        micro_batch = self._counts.next(self._name) if self._name in MICRO_BATCHED else -1
        self._frames.append(self._native.open(self._name, micro_batch=micro_batch))

    def _end(self) -> None:
        frame = self._frames.pop() if self._frames else None
        if frame is not None:
            self._native.close(frame)
