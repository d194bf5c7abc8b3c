"""What an answer takes: time, memory, bytes of the records it rests on."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from argus.collectors.records.summary import RankWindow
from argus.collectors.records.upload import encode_windows

MEMORY_EVERY = 16
"""One trial in so many is answered twice, the second time with every allocation traced, which is slow."""


@dataclass
class Meter:
    """Filled when the measured block ends."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def measured() -> Iterator[Meter]:
    """Measure the block.

    >>> with measured() as meter:
    ...     _ = sum(range(1000))
    >>> meter.wall_s > 0
    True
    """
    meter = Meter()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield meter
    finally:
        meter.wall_s, meter.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def peak_bytes_of(work: Callable[[], object]) -> int:
    """Most memory that `work` held at once, by Python and numpy; what was there before is not counted.

    >>> peak_bytes_of(lambda: bytes(1 << 20)) >= 1 << 20
    True
    """
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def is_traced(key: Sequence[int]) -> bool:
    """Whether a trial, by what its random numbers grow from, is one whose memory is measured."""
    return zlib.crc32(repr(tuple(key)).encode()) % MEMORY_EVERY == 0


def bytes_per_rank_step(parts: Sequence[RankWindow], tables: Collection[str]) -> float | None:
    """Uploaded bytes of one window, compressed as hosts do it, if it held these tables alone; None of no steps."""
    steps = sum(len(part.steps) for part in parts)
    if not steps or not tables:
        return 0.0 if steps else None
    by_host = groupby(sorted(parts, key=_host), key=_host)
    bodies = (encode_windows(_only(part, tables).to_bytes() for part in host) for _, host in by_host)
    return sum(map(len, bodies)) / steps


def _host(part: RankWindow) -> str:
    return part.host


def _only(part: RankWindow, tables: Collection[str]) -> RankWindow:
    """The rank's window without the other tables."""
    bare = RankWindow(
        run=part.run,
        attempt=part.attempt,
        rank=part.rank,
        window=part.window,
        first_step=part.first_step,
        num_steps=part.num_steps,
        host=part.host,
        names=part.names,
    )
    return replace(bare, **{name: getattr(part, name) for name in tables})
