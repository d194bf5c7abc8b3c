"""Kernel summaries in blobs no larger than the service takes: split by rank, of one rank the longest kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from argus.collectors.records.kernel_blob import (
    MAX_CLUSTERS,
    MAX_KERNEL_BYTES,
    MAX_KERNELS,
    MAX_RANKS,
    encode,
)
from argus.collectors.records.kernels import KernelSummary, name_hash

NO_ROOM = "kernel_no_room"
"""Events of kernels left out because a rank has more of them than a blob holds: somebody generates names."""

MARGIN = 0.9
"""Part of what would fit by the average kernel: those that are kept may be larger."""

Packed = tuple[tuple[KernelSummary, ...], bytes]
"""A blob and what is in it."""


def pack_kernels(
    summaries: Sequence[KernelSummary], *, names: Mapping[int, str] | None = None
) -> list[Packed]:
    """Blobs of all the ranks, each within the limits; the fewer, the more ranks share a keyframe.

    Of a rank that is too large alone the kernels that took the least time are dropped, counted as `NO_ROOM`.
    `names` are the definitions to send along, all of them if None. ValueError as `encode`.
    """
    over = _over(summaries)
    blob = b"" if over > 1.0 else encode(summaries, names=_used(names, summaries))
    over = max(over, len(blob) / MAX_KERNEL_BYTES)
    if over <= 1.0:
        return [(tuple(summaries), blob)]
    if len(summaries) > 1:
        half = len(summaries) // 2
        return pack_kernels(summaries[:half], names=names) + pack_kernels(summaries[half:], names=names)
    (one,) = summaries
    return pack_kernels([_longest(one, num=int(len(one.kernels) * MARGIN / over))], names=names)


def texts_of(summaries: Iterable[KernelSummary]) -> set[str]:
    """Names and stream roles that the summaries use."""
    return {text for summary in summaries for pair in summary.kernels for text in pair}


def _over(summaries: Sequence[KernelSummary]) -> float:
    """By how much they exceed the limits that are known before they are encoded."""
    num_clusters = sum(len(summary.clusters) for summary in summaries)
    num_kernels = len({pair for summary in summaries for pair in summary.kernels})
    return max(num_clusters / MAX_CLUSTERS, num_kernels / MAX_KERNELS, len(summaries) / MAX_RANKS)


def _used(names: Mapping[int, str] | None, summaries: Sequence[KernelSummary]) -> dict[int, str] | None:
    if names is None:
        return None
    keys = map(name_hash, texts_of(summaries))
    return {key: names[key] for key in keys if key in names}


def _longest(summary: KernelSummary, *, num: int) -> KernelSummary:
    """The `num` kernels that took the most time."""
    rows = summary.clusters
    took = np.where(np.isnan(rows["sum_ns"]), rows["p50_ns"] * rows["count"], rows["sum_ns"])
    time = np.bincount(rows["kernel"], took, len(summary.kernels))
    kept = np.sort(np.argsort(-time, kind="stable")[:num])
    place = np.full(len(time), -1)
    place[kept] = np.arange(len(kept))
    clusters = rows[place[rows["kernel"]] >= 0].copy()
    clusters["kernel"] = place[clusters["kernel"]]
    lost = int(rows["count"].sum() - clusters["count"].sum())
    return replace(
        summary,
        events=summary.events - lost,
        kernels=tuple(summary.kernels[i] for i in kept.tolist()),
        clusters=clusters,
        dropped={**summary.dropped, NO_ROOM: summary.dropped.get(NO_ROOM, 0) + lost},
    )
