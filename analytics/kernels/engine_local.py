"""L3 effects on the cores of this machine: shards of kernels over worker processes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context

from argus.analytics.kernels.effects import Effects, effects, effects_of_all, shards
from argus.analytics.kernels.peers import Peers
from argus.analytics.kernels.table import KernelTable, open_table

SMALL = 1 << 19
"""Kernels times ranks below which the work is done before another process has its input."""


@dataclass(kw_only=True)
class LocalEngine:
    """Callable as `digest.Engine`, by several threads at once. `close` ends its worker processes."""

    workers: int
    small: int = SMALL
    _pool: Executor | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __call__(self, table: KernelTable, peers: Peers, blobs: Sequence[bytes]) -> Effects:
        """All effects of the table opened from `blobs`."""
        num_kernels, num_ranks = len(table.kernels), len(table.ranks)
        if self.workers < 2 or num_kernels * num_ranks < self.small:
            return effects_of_all(table, peers)
        cuts = [round(i * num_kernels / self.workers) for i in range(self.workers + 1)]
        pool = self.pool()
        try:
            futures = [
                pool.submit(effects_of_part, list(blobs), peers, cuts[i], cuts[i + 1])
                for i in range(1, self.workers)
            ]
            parts = [_part(table, peers, first=cuts[0], last=cuts[1])]
            return Effects.join([*parts, *(future.result() for future in futures)], num_ranks=num_ranks)
        except BrokenProcessPool:  # a worker was killed: do without, with fresh ones next time
            self._give_up(pool)
            return effects_of_all(table, peers)

    def pool(self) -> Executor:
        """The workers; this process is one of them, and computes too."""
        with self._lock:
            if self._pool is None:
                # spawn: a service has threads, whose locks a fork would copy in any state.
                self._pool = ProcessPoolExecutor(self.workers - 1, mp_context=get_context("spawn"))
            return self._pool

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._give_up(self._pool)

    def _give_up(self, pool: Executor) -> None:
        """End these workers; another thread may have fresh ones already, which stay."""
        with self._lock:
            self._pool = None if self._pool is pool else self._pool
        pool.shutdown()


def effects_of_part(blobs: list[bytes], peers: Peers, first: int, last: int) -> Effects:
    """What one worker does: open the same table, compute its part of the kernels."""
    return _part(open_table(blobs), peers, first=first, last=last)


def _part(table: KernelTable, peers: Peers, *, first: int, last: int) -> Effects:
    num_ranks = len(table.ranks)
    cuts = shards(last - first, num_ranks=num_ranks)
    parts = [effects(table, peers, first=first + a, last=first + b) for a, b in cuts]
    return Effects.join(parts, num_ranks=num_ranks)
