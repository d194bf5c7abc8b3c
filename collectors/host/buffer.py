"""Hold a rank's rows until the window they belong to is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from argus.collectors.records.events import CLOCK_GPU, KERNEL, Rows
from argus.collectors.records.plan import WindowPlan

LAG_S = 1.0
"""Wait after the rank entered the next window: two turns of its writer, for calls that end asynchronously."""

GPU_LAG_S = 10.0
GPU_BEHIND_STEPS = 2
"""Longest wait for what the GPU has still to do: the host may run two steps ahead of it, however long they last.

Records of one stream come in order, so the wait ends with the first of a later window.
"""

LAST_STEP_LAG_S = 5.0
"""Wait after the window's last step when the next one is still running: long steps are not waited for."""

MAX_OPEN_BYTES = 64 << 20
"""Rows one rank may hold: two windows of a million kernels each, which is 100,000 a step."""

SLIM_KERNEL = np.dtype([(name, KERNEL[name]) for name in ("step", "name", "role", "dur_ns")])
"""What a summary of kernels is made of: two thirds of the bytes as they came."""

MAX_OPEN_WINDOWS = 1024
"""Open windows of one rank; more than a second of one-step windows at 1 ms a step."""

WINDOWED = frozenset({"steps", "phases", "collectives", "events", "kernels"})
"""Kinds a window carries."""


@dataclass(kw_only=True)
class _Open:
    parts: dict[str, list[Rows]] = field(default_factory=dict)
    num_bytes: int = 0
    done_s: float | None = None
    past_s: float | None = None
    on_gpu: set[str] = field(default_factory=set)  # kinds that hold records of the GPU's clock


class WindowBuffer:
    """Rows by window. Memory is bounded: what does not fit is dropped, newest first, and counted."""

    def __init__(self, plan: WindowPlan) -> None:
        self.plan = plan
        self.dropped: Counter[str] = Counter()
        self.last_step = -1
        self._open: dict[int, _Open] = {}
        self._bytes = 0
        self._taken_end = 0
        self._step_s = 0.0  # the newest step
        self._newest: dict[str, int] = {}  # highest step of the records of the GPU's clock, by kind

    def add(self, kind: str, rows: Rows) -> None:
        """Sort rows of a checked frame into their windows; cost is that of the new rows alone."""
        fresh = rows["step"] >= self._taken_end
        if not fresh.all():
            self.dropped["late"] += int(len(rows) - fresh.sum())
            rows = rows[fresh]
        if not len(rows):
            return
        if kind == "steps":
            self.last_step = max(self.last_step, int(rows["step"].max()))
            self._step_s = int(rows["end_ns"][-1] - rows["start_ns"][-1]) * 1e-9
        on_gpu = self._note_gpu(kind, rows)
        if kind == "kernels":
            rows = _slim(rows)
        if self._bytes + rows.nbytes > MAX_OPEN_BYTES:
            self.dropped["window_full"] += len(rows)
            return
        for index, part in self._split(rows):
            window = self._open.setdefault(index, _Open())
            window.parts.setdefault(kind, []).append(part)
            window.num_bytes += part.nbytes
            window.on_gpu |= {kind} if on_gpu else set()
            self._bytes += part.nbytes

    def _note_gpu(self, kind: str, rows: Rows) -> bool:
        """Whether these records come from a GPU; kernels do where phases do, else they are operators."""
        if kind == "phases":
            rows = rows[rows["clock"] == CLOCK_GPU]
        elif kind != "kernels" or "phases" not in self._newest:
            return False
        if len(rows):
            self._newest[kind] = max(self._newest.get(kind, -1), int(rows["step"].max()))
        return bool(len(rows))

    def take(self, now_s: float) -> Iterator[tuple[int, Mapping[str, Rows]]]:
        """Windows that are complete by now, in order."""
        excess = len(self._open) - MAX_OPEN_WINDOWS
        due = [self._is_due(index, now_s) for index in sorted(self._open)]
        for number, index in enumerate(sorted(self._open)):
            if not due[number] and number >= excess:
                return
            yield index, self._close(index)

    def take_all(self) -> Iterator[tuple[int, Mapping[str, Rows]]]:
        """Every window, complete or not, in order: the rank is gone."""
        for index in sorted(self._open):
            yield index, self._close(index)

    def replan(self, plan: WindowPlan) -> None:
        """Follow another plan from now on; rows already held move to their new windows."""
        if plan == self.plan:
            return
        held = [(kind, rows) for window in self._open.values() for kind, rows in _joined(window).items()]
        self.plan, self._open, self._bytes = plan, {}, 0
        for kind, rows in held:
            self.add(kind, rows)

    def _is_due(self, index: int, now_s: float) -> bool:
        window, end = self._open[index], self.plan.bounds(index)[1]
        if self.last_step >= end and window.past_s is None:
            window.past_s = now_s
        if self.last_step >= end - 1 and window.done_s is None:
            window.done_s = now_s
        if window.past_s is not None and now_s - window.past_s >= LAG_S:
            is_behind = any(self._newest[kind] < end for kind in window.on_gpu)
            return not is_behind or now_s - window.past_s >= self._gpu_lag_s
        lag_s = self._gpu_lag_s if window.on_gpu else LAST_STEP_LAG_S
        return window.done_s is not None and now_s - window.done_s >= lag_s

    @property
    def _gpu_lag_s(self) -> float:
        return max(GPU_LAG_S, GPU_BEHIND_STEPS * self._step_s)

    def _close(self, index: int) -> Mapping[str, Rows]:
        window = self._open.pop(index)
        self._bytes -= window.num_bytes
        self._taken_end = max(self._taken_end, self.plan.bounds(index)[1])
        return _joined(window)

    def _split(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        steps = rows["step"]
        low, high = self.plan.index(int(steps.min())), self.plan.index(int(steps.max()))
        if low == high:
            yield low, rows
            return
        distinct, inverse = np.unique(steps, return_inverse=True)
        indices = np.array([self.plan.index(int(step)) for step in distinct])[inverse]
        order = np.argsort(indices, kind="stable")
        cuts = np.flatnonzero(np.diff(indices[order])) + 1
        for part in np.split(order, cuts):
            yield int(indices[part[0]]), rows[part]


def _slim(rows: Rows) -> Rows:
    slim = np.empty(len(rows), SLIM_KERNEL)
    for name in SLIM_KERNEL.names or ():
        slim[name] = rows[name]
    return slim


def _joined(window: _Open) -> dict[str, Rows]:
    return {kind: np.concatenate(parts) for kind, parts in window.parts.items()}
