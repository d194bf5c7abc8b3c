"""Takes stack dumps of a benchmark's ranks in the blocks that are to have them, as a host processor would."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from argus.collectors.host.counters import Counters
from argus.collectors.host.pyspy import find_pyspy
from argus.collectors.host.stack_plan import BASELINE_S, OpenStep, Request
from argus.collectors.host.stack_taker import StackTaker

ARM_FILE, PID_FILE = "arm", "pid-{rank}"
ARM_BYTES = 64
LOOK_S = 0.004
FIRST_S = BASELINE_S / 2
"""The steady dumps of `all` fall into the middle of each minute of it."""


def say_arm(fd: int, arm: str, *, number: int) -> None:
    """A block begins, or with "" ends; one write that a reader sees whole."""
    os.pwrite(fd, f"{number} {arm}".ljust(ARM_BYTES).encode(), 0)


@dataclass(kw_only=True)
class Dumped:
    """What was done: dumps a rank by arm, seconds of `all` blocks, dumps that failed by reason."""

    dumps: dict[str, int] = field(default_factory=dict)
    all_s: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)


class Dumper:
    """Dumps every rank once a block of the arm `stacks`, and once a minute of all blocks of `all`."""

    def __init__(self, directory: Path, *, num_ranks: int) -> None:
        self._directory, self._num_ranks = directory, num_ranks
        taker = StackTaker(host="bench", counters=Counters(), program=find_pyspy(), wall_clock=time.time)
        self._taker, self.done = taker, Dumped()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dumper", daemon=True)
        self._last = (-1, "")
        self._looked_s = 0.0

    def __enter__(self) -> Self:
        (self._directory / ARM_FILE).write_bytes(b"")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        with (self._directory / ARM_FILE).open("rb") as file:
            while not self._stopping.wait(LOOK_S):
                self.look(os.pread(file.fileno(), ARM_BYTES, 0).decode(), now_s=time.monotonic())

    def look(self, told: str, *, now_s: float) -> None:
        """What the ranks announce; dumps them if it is time."""
        number, _, arm = told.strip().partition(" ")
        since_s, self._looked_s = now_s - self._looked_s, now_s
        here = (int(number or -1), arm)
        is_new, self._last = here != self._last, here
        if arm == "all" and not is_new:
            self.done.all_s += since_s
        due_s = FIRST_S + BASELINE_S * self.done.dumps.get("all", 0)
        if (arm == "stacks" and is_new) or (arm == "all" and self.done.all_s >= due_s):
            self._dump(arm, number=here[0])

    def _dump(self, arm: str, *, number: int) -> None:
        for rank in range(self._num_ranks):
            pid = int((self._directory / PID_FILE.format(rank=rank)).read_text())
            who = OpenStep(key=("bench", 0, rank), pid=pid, step=number, open_s=0.0, median_s=0.0)
            error = self._taker.dump(Request(rank=who, reason="baseline")).error
            if error:
                self.done.errors[error] = self.done.errors.get(error, 0) + 1
        self.done.dumps[arm] = self.done.dumps.get(arm, 0) + 1
