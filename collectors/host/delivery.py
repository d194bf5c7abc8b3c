"""What leaves the host: windows through the spool, heartbeats past it, on threads of their own."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from argus.collectors.host.counters import Counters
from argus.collectors.host.identity import Identities
from argus.collectors.host.notices import Notices
from argus.collectors.host.observers import Observation
from argus.collectors.host.pack_hosts import NameBook, pack_hosts
from argus.collectors.host.spool import FULL, TOO_SMALL, Spool
from argus.collectors.host.uploader import COUNTED, Heard, Uploader
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.kernels import KernelSummary
from argus.collectors.records.layout import Layout
from argus.collectors.records.report import Report
from argus.collectors.records.summary import RankWindow
from argus.collectors.records.upload import encode_windows

MAX_QUEUED = 256
"""Batches waiting for the disk; more means that it stands still."""

LOST_WINDOWS = "argus_collector_dropped_windows_total"
JOIN_MARGIN_S = 0.5

Items = Sequence[Layout] | Sequence[RankWindow] | Sequence[Observation]
"""What one upload holds."""


class Delivery:
    """A bounded queue to a thread that compresses and spools, and the upload thread behind the spool.

    Disk and network may stall for seconds; the loop that reads the ranks never waits for either.
    """

    def __init__(self, spool: Spool, uploader: Uploader, *, counters: Counters, notices: Notices) -> None:
        self._spool, self._uploader = spool, uploader
        self._counters, self._notices = counters, notices
        self._queue: queue.Queue[tuple[str, Items] | None]
        self._queue = queue.Queue(MAX_QUEUED)
        self._told_lost = 0  # windows lost that a window has told of
        self._book, self._identities = NameBook(), Identities()
        self._threads = (
            threading.Thread(target=self._spool_all, name="argus-spool", daemon=True),
            threading.Thread(target=uploader.run, name="argus-upload", daemon=True),
        )

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def submit_layouts(self, layouts: Sequence[Layout]) -> None:
        """Send layouts that are new or changed, before the windows that follow."""
        self._submit("layouts", layouts)

    def submit_windows(self, windows: Sequence[RankWindow]) -> None:
        """Send windows in one batch."""
        if not self._submit("windows", windows):
            self._lose("windows", "queue_full", num=len(windows))

    def submit_observations(self, observation: Observation) -> None:
        """Send stacks and host samples."""
        if not self._submit("observations", (observation,)):
            self._lose("observations", "queue_full", num=observation.num)

    def submit_beats(
        self, beats: Sequence[Heartbeat], *, layouts: Iterable[Layout], report: Report | None = None
    ) -> None:
        """Send the latest heartbeats as soon as possible."""
        self._uploader.submit_beats(beats, layouts=layouts, report=report)

    def heard(self) -> Iterable[Heard]:
        """What the service said since last asked."""
        while not self._uploader.heard.empty():
            yield self._uploader.heard.get()

    @property
    def is_idle(self) -> bool:
        """Everything is acknowledged."""
        return not self._queue.unfinished_tasks and self._uploader.is_idle

    def stop(self, within_s: float) -> None:
        """Spool what is queued, send what can be sent within the time, keep the rest on disk."""
        half_s = within_s / 2.0
        try:
            self._queue.put(None, timeout=half_s)
            self._threads[0].join(half_s)
        except queue.Full:
            self._notices.once("queue_full", "the spool's disk stands still, what was queued is lost")
        self._uploader.stop(half_s)
        self._threads[1].join(half_s + JOIN_MARGIN_S)
        self._spool.close()

    def _submit(self, kind: str, items: Items) -> bool:
        try:
            self._queue.put_nowait((kind, items))
        except queue.Full:
            self._notices.once("queue_full", f"the spool's disk stands still, dropping {kind}")
            return False
        return True

    def _spool_all(self) -> None:
        while (job := self._queue.get()) is not None:
            kind, items = job
            try:
                self._spool_one(kind, items)
            except Exception as error:  # noqa: BLE001 one batch that cannot be packed must not end the others
                self._lose(kind, "error", num=_num(items))
                self._notices.once("pack", f"{kind} could not be packed: {error!r:.200}")
            self._counters.set("argus_collector_spool_bytes", self._spool.num_bytes)
            self._queue.task_done()
            self._uploader.wake()
        self._queue.task_done()

    def _spool_one(self, kind: str, items: Items) -> None:
        if not self._spool.put(kind, self._encode(items), num=_num(items)):
            self._notices.once("spool", "the disk does not take the spool; a little waits in memory")

    def _lose(self, kind: str, reason: str, *, num: int) -> None:
        if kind in COUNTED:
            self._counters.add(f"argus_collector_dropped_{kind}_total", reason, amount=num)

    def _with_losses(self, windows: list[RankWindow]) -> list[RankWindow]:
        """The windows, the first of which counts those that were lost on the way since the last batch.

        One that is lost itself takes its word along; the processor's counters keep the whole.
        """
        totals = self._counters.snapshot()
        lost = int(sum(n for (name, _), n in totals.items() if name == LOST_WINDOWS))
        new, self._told_lost = lost - self._told_lost, lost
        if not new:
            return windows
        return [windows[0].with_loss("windows_lost", new), *windows[1:]]

    def _encode(self, items: Items) -> bytes:
        for item in items:
            if isinstance(item, Observation):
                return json.dumps(item.body, separators=(",", ":")).encode()
        windows = [item for item in items if isinstance(item, RankWindow)]
        if windows:
            self._book.forget(self._uploader.names_wanted())
            packed = pack_hosts(
                self._with_losses(windows),
                book=self._book,
                identities=self._identities,
                told=self._note_compression,
            )
            return encode_windows(window.to_bytes() for window in packed)
        layouts = [item.to_json() for item in items if isinstance(item, Layout)]
        return json.dumps({"layouts": layouts}, separators=(",", ":")).encode()

    def _note_compression(self, summary: KernelSummary) -> None:
        name, ratio = "argus_collector_kernel_compression_ratio", summary.compression_ratio
        self._counters.set(name, ratio, label=str(summary.rank))


def tell_losses(directory: Path, *, counters: Counters, notices: Notices) -> Callable[[str, int, str], None]:
    """What a spool in `directory` tells its losses to: each kind and reason is counted, and said once."""

    def lost(kind: str, num: int, why: str) -> None:
        if kind in COUNTED:
            counters.add(f"argus_collector_dropped_{kind}_total", why, amount=num)
        if why == FULL:
            text = f"the spool {directory} is full, the oldest {kind} are dropped"
        elif why == TOO_SMALL:
            text = f"{kind} larger than all that the spool {directory} may hold (--spool-bytes) are dropped"
        else:
            text = f"the disk does not take the spool {directory} and memory is full, new {kind} are dropped"
        notices.once(f"{why} {kind}", text)

    return lost


def _num(items: Items) -> int:
    return sum(item.num if isinstance(item, Observation) else 1 for item in items)
