"""Clusters of a kernel recognised from window to window: the same mode keeps its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argus.collectors.records.kernels import KernelSummary

SAME_RATIO = 1.3
"""A mode of the last window is the same if its median is within this factor and the order is kept."""

MAX_IDENT = 255
MAX_TRACKED = 1 << 18
"""(rank, kernel) pairs remembered; beyond it the oldest are forgotten."""


@dataclass(kw_only=True)
class _Known:
    p50_ns: list[float]
    idents: list[int]
    next_ident: int


class Identities:
    """Numbers of the modes of every rank's kernels, from window to window."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], int, tuple[str, str]], _Known] = {}

    def follow(self, attempt: tuple[str, int], summary: KernelSummary) -> KernelSummary:
        """The summary with each cluster's identity; windows of a rank come in order."""
        clusters = summary.clusters.copy()
        begin = 0
        counts = [0] * len(summary.kernels)
        for kernel in clusters["kernel"].tolist():
            counts[kernel] += 1
        medians = clusters["p50_ns"].tolist()
        idents: list[int] = []
        for pair, count in zip(summary.kernels, counts, strict=True):
            idents += self._number((attempt, summary.rank, pair), medians[begin : begin + count])
            begin += count
        clusters["ident"] = idents
        return replace(summary, clusters=clusters)

    def _number(
        self, key: tuple[tuple[str, int], int, tuple[str, str]], medians: Sequence[float]
    ) -> list[int]:
        known = self._known.pop(key, None) or _Known(p50_ns=[], idents=[], next_ident=0)
        idents = match(known.p50_ns, medians)
        numbers = []
        for place in idents:
            if place >= 0:
                numbers.append(known.idents[place])
            else:
                numbers.append(min(known.next_ident, MAX_IDENT))
                known.next_ident += 1
        self._known[key] = _Known(p50_ns=list(medians), idents=numbers, next_ident=known.next_ident)
        if len(self._known) > MAX_TRACKED:
            self._known.pop(next(iter(self._known)))
        return numbers


def match(before: Sequence[float], now: Sequence[float]) -> list[int]:
    """Place in `before` of each of `now`, −1 if new: nearest by ratio, in order, each used once.

    >>> match([10.0, 20.0, 900.0], [10.2, 880.0])
    [0, 2]
    """
    out: list[int] = []
    first = 0
    for median in now:
        best, best_ratio = -1, SAME_RATIO
        for place in range(first, len(before)):
            ratio = max(before[place] / median, median / before[place])
            if ratio < best_ratio:
                best, best_ratio = place, ratio
        out.append(best)
        first = best + 1 if best >= 0 else first
    return out
