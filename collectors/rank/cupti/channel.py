"""The kernel channel of a rank: when it collects, when it steps aside, and the thread that parses."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from argus.collectors.rank.claims import Claims
from argus.collectors.rank.cupti.anchor import Anchor
from argus.collectors.rank.cupti.api import Api, Refused
from argus.collectors.rank.cupti.join import Joiner
from argus.collectors.rank.cupti.layouts import LayoutError
from argus.collectors.rank.cupti.path import Path
from argus.collectors.rank.cupti.series import Series
from argus.collectors.rank.guard import Part
from argus.collectors.rank.own_thread import OwnThread
from argus.collectors.rank.recorder import Recorder

PARSE_S = 0.4
"""Between looks for full buffers where no flush calls for one: the pool carries seconds."""

RETRY_NS = 30_000_000_000
"""Between attempts while somebody else holds CUPTI."""

SILENT_NS = 15_000_000_000
SILENT_STEPS = 5
"""So many steps in so long without a record: another client has registered its own callbacks."""

CLAIM_WAIT_S = 1.0
"""A user who starts a profiler waits at most so long for a flush of ours that is under way."""

OFF_EVENT = "kernels_off"
"""EVENT kind: kernels were not collected for dur_ns; put out when they are again."""

RESIDUAL_EVENT = "clock_residual:cupti"
"""EVENT kind: value is by how many ns CUPTI's clock had drifted since it was last anchored."""


@dataclass(kw_only=True)
class Counts:
    """What the channel did so far."""

    records: int = 0
    rows: int = 0
    buffers: int = 0
    decode_ns: int = 0
    registrations: int = 0


class Channel:
    """`tick` is called by the writer thread, `step_aside` by whoever claims CUPTI, `parse` by our own."""

    def __init__(
        self,
        *,
        api: Api,
        path: Path,
        fallback: Callable[[], Path],
        joiner: Joiner,
        recorder: Recorder,
        claims: Claims,
        unseen: Callable[[str], None],
        anchor: Anchor,
    ) -> None:
        self._api = api
        self.path = path
        self._fallback = fallback
        self._joiner = joiner
        self._recorder = recorder
        self._claims = claims
        self._unseen = unseen
        self.anchor = anchor
        self.counts = Counts()
        self.is_on = False
        self.is_paused = False
        self._series = Series(recorder.ring)
        self._lock = threading.Lock()
        self._parsing = threading.Lock()
        self._is_registered = False
        self._retry_ns = 0
        self._off_ns: int | None = None
        self._heard_ns = 0
        self._heard_step = 0
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._flushed = threading.Event()
        self._thread: OwnThread | None = None

    # Control

    def tick(self) -> None:
        """Start when it can, keep the clock anchored, let full buffers come, notice displacement."""
        with self._lock:
            if not self.is_on:
                self._try_on()
            elif self.is_paused:
                self._off()
            else:
                self._keep()

    def _try_on(self) -> None:
        now_ns = self._recorder.now_ns()
        if self.is_paused or self._claims.is_claimed or now_ns < self._retry_ns:
            return
        try:
            # Kineto keeps its subscription after its first use; idle, it does not collect.
            if not self._claims.was_claimed and self._api.has_rival():
                self._wait("kernels: another CUPTI client is at work")
                return
            if not self._is_registered:
                self.path.register()
                self._is_registered = True
                self.counts.registrations += 1
            self.anchor.measure()
            self._api.enable()  # last: what is refused before leaves nothing on that nobody would switch off
        except Refused as error:
            self._wait(f"kernels: CUPTI refused: {error}")
            return
        self.is_on = True
        self._hear()
        if self._off_ns is not None:
            self._recorder.event(OFF_EVENT, start_ns=self._off_ns, dur_ns=now_ns - self._off_ns)
            self._off_ns = None

    def _wait(self, why: str) -> None:
        self._unseen(why)
        now_ns = self._recorder.now_ns()
        self._retry_ns = now_ns + RETRY_NS
        if self._off_ns is None:
            self._off_ns = now_ns

    def _keep(self) -> None:
        try:
            if self.anchor.is_due:
                self.anchor.measure()
                now_ns = self._recorder.now_ns()
                residual_ns = float(self.anchor.residual_ns)
                self._recorder.event(RESIDUAL_EVENT, start_ns=now_ns, dur_ns=0, value=residual_ns)
            self._api.flush(is_forced=False)
            self._flushed.set()  # parsed before the writer sends next: the window waits a second for them
            self._count_dropped()
        except Refused as error:
            self._off()
            self._wait(f"kernels: CUPTI refused: {error}")
            return
        steps = self._recorder.step - self._heard_step
        if steps >= SILENT_STEPS and self._recorder.now_ns() - self._heard_ns >= SILENT_NS:
            self._off()
            self._is_registered = False
            self._wait("kernels: another CUPTI client took over the records")

    def _count_dropped(self) -> None:
        dropped = self._api.num_dropped()
        if dropped:
            self._recorder.ring.drop("kernel_cupti", dropped)

    def _hear(self) -> None:
        self._heard_ns, self._heard_step = self._recorder.now_ns(), self._recorder.step

    def _off(self) -> None:
        """Collect nothing more; what was collected is handed over."""
        if not self.is_on:
            return
        self.is_on = False
        self._off_ns = self._recorder.now_ns()
        try:
            self._api.disable()
            self._api.flush(is_forced=True)
            self._count_dropped()
        except Refused as error:
            self._unseen(f"kernels: CUPTI refused: {error}")

    def step_aside(self) -> None:
        """Somebody else is about to use CUPTI in this process; it will replace our callbacks."""
        if not self._lock.acquire(timeout=CLAIM_WAIT_S):
            self._unseen("kernels: CUPTI was busy when another client came")
            return
        try:
            if self.is_on:
                self._unseen("kernels while torch.profiler runs")
            self._off()
            self._is_registered = False
        finally:
            self._lock.release()

    def pause(self, *, is_paused: bool) -> None:
        """Stop collecting at the next tick, or go on."""
        self.is_paused = is_paused

    def stop(self) -> None:
        """Leave nothing on; parse what is there. Not in a forked child, whose CUPTI is its parent's."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._flushed.set()
        with self._lock:
            self._off()
            self.is_paused = True
        thread = self._thread
        if thread is not None and not thread.is_current:
            thread.join(CLAIM_WAIT_S)
        with self._parsing:
            self._parse(is_last=True)

    # Parsing

    def start_parsing(self, part: Part) -> None:
        """The thread that decodes. RuntimeError if there is none to be had."""
        self._thread = OwnThread(partial(self._run, part.guard(self.parse)), name="argus-kernels")
        self._thread.start()

    def _run(self, parse: Callable[[], None]) -> None:
        while not self._stop.is_set():
            self._flushed.wait(PARSE_S)
            self._flushed.clear()
            parse()

    def parse(self) -> None:
        """One round of the parsing thread: decode every full buffer, put the rows into the ring."""
        with self._parsing:
            self._parse(is_last=False)

    def _parse(self, *, is_last: bool) -> None:
        now_ns = self._recorder.now_ns
        start_ns, path = now_ns(), self.path
        try:
            while (decoded := path.take()) is not None:
                self._hear()
                self.counts.records += decoded.num_records
                self.counts.buffers += 1
                if decoded.lost_bytes:
                    self._recorder.ring.drop("kernel_unreadable", 1)
                self._joiner.add(decoded)
        except LayoutError as error:
            self._fall_back(error)
        lost = path.take_lost()
        if lost:
            self._recorder.ring.drop("kernel_buffers", lost)
        rows = self._joiner.take(self.anchor.offset_ns, is_last=is_last)
        self.counts.rows += len(rows)
        self._recorder.ring.put_block("kernels", rows)
        self._series.add(rows, is_last=is_last)
        self.counts.decode_ns += now_ns() - start_ns

    def _fall_back(self, error: LayoutError) -> None:
        """The raw layout is not what it should be: go on with cupti-python's own records."""
        self._recorder.ring.drop("kernel_unreadable", 1)
        self._unseen(f"kernels: read as objects, at a higher cost: {error}")
        self.use(self._fallback())

    def use(self, path: Path) -> None:
        """Let buffers come another way from now on."""
        with self._lock:
            was_on = self.is_on
            self._off()
            self.path, self._is_registered = path, False
            if was_on:
                self._try_on()
