"""Effects of all kernels of a window on all ranks: the part of L3 that is split between workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.match import Comparison, compare
from argus.analytics.kernels.peers import Ints, Peers
from argus.analytics.kernels.table import KernelTable, dense

Matrix = NDArray[np.float32]

SHARD_CELLS = 1 << 15
"""Kernels times ranks unpacked at a time: so few that a shard stays in the processor's cache."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """`match.Comparison` of every kernel, all (kernel, rank), in the table's order."""

    shift: Matrix
    p50: Matrix
    tail: Matrix
    top: Matrix
    peak: Matrix
    mean: Matrix
    total_ns: Matrix
    noise: Matrix

    @staticmethod
    def of(rows: Sequence[Comparison], *, num_ranks: int) -> Effects:
        """Comparisons of kernels, one after the other."""
        return Effects(
            **{
                item.name: np.array([getattr(row, item.name) for row in rows], np.float32).reshape(
                    len(rows), num_ranks
                )
                for item in fields(Effects)
            }
        )

    @staticmethod
    def join(parts: Sequence[Effects], *, num_ranks: int) -> Effects:
        """Shards one after the other."""
        empty = np.empty((0, num_ranks), np.float32)
        return Effects(
            **{
                item.name: np.concatenate([getattr(part, item.name) for part in parts] or [empty])
                for item in fields(Effects)
            }
        )


def shards(num_kernels: int, *, num_ranks: int) -> list[tuple[int, int]]:
    """Bounds of the shards of the table's kernels."""
    size = max(1, SHARD_CELLS // max(num_ranks, 1))
    return [(first, min(first + size, num_kernels)) for first in range(0, num_kernels, size)]


def effects(table: KernelTable, peers: Peers, *, first: int, last: int) -> Effects:
    """Kernels `first` … `last` − 1. Pure: any worker gets the same. Raises WireError on a damaged chunk."""
    kernels = dense(table, first, last=last)
    rows = [compare(kernel, peers.of_kernel(first + i)) for i, kernel in enumerate(kernels)]
    return Effects.of(rows, num_ranks=len(table.ranks))


def effects_of_all(table: KernelTable, peers: Peers) -> Effects:
    """All kernels in this process."""
    num_ranks = len(table.ranks)
    cuts = shards(len(table.kernels), num_ranks=num_ranks)
    parts = [effects(table, peers, first=first, last=last) for first, last in cuts]
    return Effects.join(parts, num_ranks=num_ranks)


__all__ = ["Effects", "Ints", "Matrix", "effects", "effects_of_all", "shards"]
