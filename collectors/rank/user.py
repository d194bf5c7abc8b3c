"""The phases, steps and marks that the training script names itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from argus.collectors.rank.aliases import canonical
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import MARK_FLAGS, Recorder

MAX_UNITS = 8  # kinds of work in one call
MAX_STEP = 2**63 - 1  # what the wire's column holds; anything else is no step number


class UserMarks:
    """Guarded entry points for the public functions: none of them raises."""

    def __init__(self, recorder: Recorder, part: Part) -> None:
        self._recorder = recorder
        self._marks: list[tuple[str, int, str]] = []  # name, start, the mark around it
        self.open = part.guard(self._open)
        self.close = part.guard(self._close)
        self.step = part.guard(self._step)
        self.work = part.guard(self._work)
        self.open_mark = part.guard(self._open_mark)
        self.close_mark = part.guard(self._close_mark)

    def _open(self, name: str) -> None:
        recorder = self._recorder
        if recorder.gpu is not None and recorder.gpu.is_capturing():
            return
        native = recorder.ring.intern(name)
        recorder.open(recorder.names[canonical(name)], native)

    def _close(self, name: str) -> None:
        self._recorder.close_native(self._recorder.ring.intern(name))

    def _step(self, number: int) -> None:
        index = int(number)
        self._recorder.user_step(index if 0 <= index <= MAX_STEP else -1)

    def _work(self, units: Mapping[str, float]) -> None:
        amounts = {unit: float(amount) for unit, amount in list(units.items())[:MAX_UNITS]}
        self._recorder.has_user_work = True
        self._recorder.work({unit: amount for unit, amount in amounts.items() if math.isfinite(amount)})

    def _open_mark(self, name: str) -> None:
        recorder = self._recorder
        self._marks.append((name, recorder.now_ns(), recorder.mark))
        recorder.mark = name
        recorder.flag(MARK_FLAGS.get(name, 0))
        self._open(name)

    def _close_mark(self, name: str) -> None:
        recorder = self._recorder
        self._close(name)
        while self._marks:
            opened, start_ns, around = self._marks.pop()
            if recorder.mark == opened:  # else a framework's, around this one, has ended already
                recorder.mark = around
            dur_ns = recorder.now_ns() - start_ns
            recorder.event(f"mark:{opened}", start_ns=start_ns, dur_ns=dur_ns)
            recorder.flag(MARK_FLAGS.get(opened, 0))
            if opened == name:
                break
