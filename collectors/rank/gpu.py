"""Times of the GPU's compute stream: pooled events, resolved later by polling, never a synchronise."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, cast

from argus.collectors.rank.clock import Clock

POOL = 4096  # events alive at once; a stream that far behind gets no further phases timed
CAPTURE_WAIT_S = 1.0  # a capture waits at most so long for a poll that is under way, which takes milliseconds
ANCHOR_PERIOD_NS = 5_000_000_000  # elapsed_time is a float32 of milliseconds: 0.5 us steps up to ~8 s


class Event(Protocol):
    """What `torch.cuda.Event(enable_timing=True)` offers and the fake in `fake_gpu` too."""

    def record(self) -> None:
        """Put the event on the current stream."""

    def query(self) -> bool:
        """Whether the stream has passed it."""

    def elapsed_time(self, end_event: Self) -> float:
        """Milliseconds from this event to `end_event`, both passed."""


UseDevice = Callable[[Event], int]
"""Has the calling thread use the device that an event was recorded on; returns its index."""


@dataclass(kw_only=True)
class Stamp:
    """One event on the stream and the host time at which it was put there."""

    event: Event
    host_ns: int
    uses: int = 0
    gpu_ns: int | None = None


Deliver = Callable[[list[int]], None]
"""Gets the host-clock times of the stamps asked for, in their order."""


class GpuClock:
    """Stamps on the current stream, delivered as host times once the GPU has passed them.

    The stream's time is anchored by its lower envelope: an event cannot pass before it was put there, so
    host − gpu is at most the offset, and equals it up to the launch latency whenever the stream was idle.
    """

    def __init__(
        self,
        *,
        new_event: Callable[[], Event],
        is_capturing: Callable[[], bool],
        now_ns: Clock,
        use_device: UseDevice | None = None,
        device: int | None = None,
    ) -> None:
        self._new_event = new_event
        self._use_device = use_device
        self.device = device  # index of the training thread's, None until one is known
        self.is_capturing = is_capturing
        self._now_ns = now_ns
        self._free: deque[Event] = deque()
        self._alive = 0
        self._waiting: deque[tuple[list[Stamp], Deliver]] = deque()
        self._anchor: Stamp | None = None
        self._offsets_ns: deque[int] = deque(maxlen=2)  # of this anchor and the one before: clocks drift
        self._polling = threading.Lock()
        self._captures = 0
        self.lost = 0
        self.on_anchor: Callable[[int], None] | None = None  # told by how much the offset had moved

    def stamp(self) -> Stamp | None:
        """An event on the current stream; None during graph capture or when the pool is exhausted."""
        if self.is_capturing():
            return None
        try:
            event = self._free.pop()
        except IndexError:
            if self._alive >= POOL:
                self.lost += 1
                return None
            self._alive += 1
            event = self._new_event()
        host_ns = self._now_ns()
        event.record()
        return Stamp(event=event, host_ns=host_ns)

    def deliver(self, stamps: list[Stamp], to: Deliver) -> None:
        """Call `to` from `poll` once all `stamps` have passed."""
        for stamp in stamps:
            stamp.uses += 1
        self._waiting.append((stamps, to))

    def release(self, stamp: Stamp) -> None:
        """Give back a stamp nobody waits for."""
        if not stamp.uses and stamp is not self._anchor:
            self._free.append(stamp.event)

    def begin_capture(self) -> None:
        """A CUDA graph is captured from here on: to query an event would break that, on whichever thread it is done."""
        is_held = self._polling.acquire(timeout=CAPTURE_WAIT_S)
        self._captures += 1
        if is_held:
            self._polling.release()

    def end_capture(self) -> None:
        """It is done, or failed; also one that had begun before anybody looked."""
        self._captures = max(self._captures - 1, 0)

    def poll(self) -> None:
        """Deliver what has passed, in order, unless a graph is captured; called by the writer thread."""
        with self._polling:
            if not self._captures:
                self._poll()

    def _poll(self) -> None:
        if self._waiting and self._use_device is not None:
            self.device = self._use_device(self._waiting[0][0][0].event)
        while self._waiting:
            stamps, to = self._waiting[0]
            if not all(stamp.gpu_ns is not None or stamp.event.query() for stamp in stamps):
                return
            self._waiting.popleft()
            to([self._resolve(stamp) for stamp in stamps])
            for stamp in stamps:
                stamp.uses -= 1
                self.release(stamp)

    def _resolve(self, stamp: Stamp) -> int:
        if stamp.gpu_ns is None:
            stamp.gpu_ns = self._on_gpu_axis(stamp)
            behind = stamp.host_ns - stamp.gpu_ns
            if stamp is self._anchor:
                self._tell_residual()
                self._offsets_ns.append(behind)
            self._offsets_ns[-1] = max(self._offsets_ns[-1], behind)
        return stamp.gpu_ns + max(self._offsets_ns)

    def _tell_residual(self) -> None:
        """The offset of the stretch that just ended against the one before: drift, plus idle never met."""
        if self.on_anchor is not None and len(self._offsets_ns) > 1:
            self.on_anchor(self._offsets_ns[-1] - self._offsets_ns[-2])

    def _on_gpu_axis(self, stamp: Stamp) -> int:
        """Nanoseconds on one axis that goes on when the anchor moves."""
        if self._anchor is None:
            self._anchor = stamp
            return stamp.host_ns
        base = self._anchor
        assert base.gpu_ns is not None
        gpu_ns = base.gpu_ns + round(base.event.elapsed_time(stamp.event) * 1e6)
        if gpu_ns - base.gpu_ns > ANCHOR_PERIOD_NS:
            self._anchor = stamp
            if not base.uses:
                self._free.append(base.event)
        return gpu_ns


def cuda_clock(now_ns: Clock) -> GpuClock | None:
    """The clock of this process's GPU; None on a job without one."""
    import torch

    if not torch.cuda.is_available():
        return None

    def use_device(event: Event) -> int:
        # Each thread has a current device of its own, at first 0: to ask there would make a context on a GPU that is
        # another rank's.
        index: int = getattr(event, "device").index  # noqa: B009 the fake has none
        if torch.cuda.current_device() != index:
            torch.cuda.set_device(index)
        return index

    return GpuClock(
        new_event=lambda: cast(Event, torch.cuda.Event(enable_timing=True)),  # type: ignore[no-untyped-call]
        is_capturing=torch.cuda.is_current_stream_capturing,
        now_ns=now_ns,
        use_device=use_device,
        device=0 if torch.cuda.device_count() == 1 else None,
    )
