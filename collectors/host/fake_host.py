"""A processor in a thread for tests, with clocks that run fast."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from argus.collectors.host.aside import Aside
from argus.collectors.host.client import parse_server
from argus.collectors.host.counters import Counters
from argus.collectors.host.delivery import Delivery
from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.host.governor import Governor
from argus.collectors.host.launchers import Launchers
from argus.collectors.host.listener import listen
from argus.collectors.host.notices import Notices
from argus.collectors.host.observers import Observers
from argus.collectors.host.processor import STOP_FLUSH_S, Processor
from argus.collectors.host.ranks import Ranks
from argus.collectors.host.recorder import Recorder
from argus.collectors.host.spool import Spool
from argus.collectors.host.switches import Switches
from argus.collectors.host.uploader import Uploader
from argus.collectors.records.layout import Layout

SPEED = 20.0
"""Seconds of the processor's clock in one of ours."""

HOST = "host-1"
RUN = "run"
WORLD = 8


@dataclass(kw_only=True)
class FakeHost:
    """A running processor under `directory` and the ranks connected to it."""

    path: Path
    counters: Counters
    said: list[str]
    ranks: Ranks
    processor: Processor
    thread: threading.Thread
    connected: list[FakeRank] = field(default_factory=list)

    def connect(self, rank: int = 0, *, attempt: int = 0) -> FakeRank:
        """A rank of this very process."""
        layout = Layout(run=RUN, attempt=attempt, rank=rank, world_size=WORLD, pid=os.getpid())
        self.connected.append(FakeRank(self.path, layout))
        return self.connected[-1]

    def wait_for(self, is_true: Callable[[], bool], *, timeout_s: float = 10.0) -> bool:
        """Until a claim holds; False if it never did."""
        end_s = time.monotonic() + timeout_s
        while not is_true():
            if time.monotonic() > end_s:
                return False
            time.sleep(0.01)
        return True

    def stop(self) -> None:
        """End the processor, then the ranks."""
        self.processor.stop()
        self.thread.join(20.0)
        for rank in self.connected:
            rank.sock.close()
        assert not self.thread.is_alive()


def fast_clock() -> float:
    """Monotonic seconds, twenty times as fast."""
    return time.monotonic() * SPEED


def start(
    directory: Path,
    *,
    url: str = "",
    record_bytes: int | None = None,
    launcher_pid: int | None = None,
    observers: Callable[[Counters, Notices], Observers] | None = None,
) -> FakeHost:
    """Run a processor that reports to `url`, records if told how much, ends with its launcher if it has one."""
    counters, said = Counters(), list[str]()
    notices = Notices(said.append)
    listener = listen(directory / "private" / "p.sock")
    assert listener is not None
    ranks = Ranks(host=HOST, first_steps=10, counters=counters)
    recorder = _recorder(directory / "rec", record_bytes, counters, notices)
    processor = Processor(
        listener,
        ranks,
        delivery=_delivery(directory / "spool", url, counters, notices) if url else None,
        recorder=recorder,
        launchers=_launchers(directory / "launchers", launcher_pid),
        aside=_aside(
            listener.path,
            observers(counters, notices) if observers else None,
            recorder=recorder,
            counters=counters,
            notices=notices,
        ),
        governor=Governor(counters=counters),
        counters=counters,
        notices=notices,
        clock=fast_clock,
        wall_clock=time.time,
        flush_s=STOP_FLUSH_S * SPEED,
    )
    thread = threading.Thread(target=processor.run)
    thread.start()
    return FakeHost(
        path=listener.path, counters=counters, said=said, ranks=ranks, processor=processor, thread=thread
    )


def _aside(
    socket: Path,
    observers: Observers | None,
    *,
    recorder: Recorder | None,
    counters: Counters,
    notices: Notices,
) -> Aside:
    return Aside(
        host=HOST,
        started_s=time.time(),
        switches=Switches(socket, notices=notices),
        observers=observers,
        orders=None,
        counters=counters,
        recorder=recorder,
    )


def _recorder(
    directory: Path, max_bytes: int | None, counters: Counters, notices: Notices
) -> Recorder | None:
    if max_bytes is None:
        return None
    return Recorder(directory, max_bytes=max_bytes, counters=counters, notices=notices)


def _launchers(directory: Path, pid: int | None) -> Launchers | None:
    if pid is None:
        return None
    launchers = Launchers(directory)
    launchers.add(pid)
    return launchers


def _delivery(directory: Path, url: str, counters: Counters, notices: Notices) -> Delivery:
    spool = Spool(directory, max_bytes=1 << 20, lost=lambda kind, num, why: None)
    uploader = Uploader(
        replace(parse_server(url), timeout_s=0.5),
        spool,
        host=HOST,
        counters=counters,
        notices=notices,
        clock=fast_clock,
        rng=random.Random(1),
    )
    delivery = Delivery(spool, uploader, counters=counters, notices=notices)
    delivery.start()
    return delivery
