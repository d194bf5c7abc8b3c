"""The thread that takes stack dumps, so that no slow process holds up the ones that answer."""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from argus.collectors.host.counters import Counters
from argus.collectors.host.pyspy import take_dump
from argus.collectors.host.rank import Key
from argus.collectors.host.stack_plan import Request
from argus.collectors.host.threads import join_threads, read_children, read_tasks
from argus.collectors.records.stacks import LONG_OPEN_S, StackDump

MAX_WAITING = 64
MAX_KEPT = 2048
"""Dumps that wait to be sent; more is more than the loop was away for."""

BURST_PAUSE_S = 0.2


class StackTaker:
    """Takes what is asked for, one after the other; a full queue is counted, never waited for."""

    def __init__(
        self, *, host: str, counters: Counters, program: str | None, wall_clock: Callable[[], float]
    ) -> None:
        self._host, self._counters, self._wall_clock = host, counters, wall_clock
        self._program = program
        self._queue: queue.Queue[Request | None] = queue.Queue(MAX_WAITING)
        self._done: deque[StackDump] = deque(maxlen=MAX_KEPT)
        self._owed, self._lock = Counter[Key](), threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argus-stacks", daemon=True)
        self.is_urgent = False  # a step is open for so long that other hosts should hear of it now
        self.last_error = "" if program else "not_installed"

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, requests: Sequence[Request]) -> None:
        """Ask for dumps."""
        for request in requests:
            self._owe(request, 1)
            try:
                self._queue.put_nowait(request)
            except queue.Full:
                self._owe(request, -1)
                self._counters.add("argus_collector_stack_skipped_total", amount=request.count)

    def take(self) -> list[StackDump]:
        """The dumps taken since last asked."""
        self.is_urgent = False
        taken = []
        while self._done:
            taken.append(self._done.popleft())
        return taken

    def owes(self, key: Key) -> bool:
        """Whether dumps of a rank were asked for that `take` cannot return yet."""
        with self._lock:
            return self._owed[key] > 0

    def _owe(self, request: Request, change: int) -> None:
        with self._lock:
            self._owed[request.rank.key] += change
            self._owed += Counter()  # keeps those above zero

    def stop(self) -> None:
        """End after the dump at hand."""
        self._stopping.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return  # the thread looks at `_stopping` before each request
        self._thread.join(1.0)

    def _run(self) -> None:
        while (request := self._queue.get()) is not None and not self._stopping.is_set():
            self._serve(request)
            self._owe(request, -1)

    def _serve(self, request: Request) -> None:
        for number in range(request.count):
            if number and self._stopping.wait(BURST_PAUSE_S):
                return
            try:
                dump = self.dump(request)
                self._done.append(dump)
                self.is_urgent |= dump.reason == "slow_step" and dump.open_s >= LONG_OPEN_S
            except Exception as error:  # noqa: BLE001 one dump that fails must not end the others
                # Out of descriptors or processes: the next dump may find some.
                self._counters.add("argus_collector_stack_dumps_total", "error")
                self.last_error = f"{type(error).__name__}: {error}"[:200]

    def dump(self, request: Request) -> StackDump:
        """One dump of one rank; one that failed says why."""
        rank = request.rank
        ts_s = self._wall_clock()
        tasks = read_tasks(rank.pid)
        # A stopped process cannot be stopped once more: its frames are read as they lie.
        is_stopped = rank.pid in tasks and tasks[rank.pid].state in "Tt"
        is_native = request.is_native and not is_stopped
        dump = take_dump(rank.pid, program=self._program, is_native=is_native)
        self.last_error = dump.error
        result = dump.error or "ok"
        self._counters.add("argus_collector_stack_dumps_total", result)
        return StackDump(
            run=rank.key[0],
            attempt=rank.key[1],
            rank=rank.key[2],
            host=self._host,
            ts_s=ts_s,
            step=rank.step,
            open_s=rank.open_s,
            reason=request.reason,
            is_native=is_native,
            error=dump.error,
            detail=dump.detail,
            threads=join_threads(rank.pid, dump.threads, tasks=tasks, children=read_children(rank.pid)),
        )
