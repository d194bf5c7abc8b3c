"""One window's packed kernel summaries of all hosts, opened, and any of its kernels as dense arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.errors import WireError
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_blob import RANK
from argus.collectors.records.kernel_read import Blob, Bundle, Clusters, bundle, open_blob, read

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

MAX_CLUSTERS = 8
"""Clusters of a kernel that are compared; what a paper-mode summary has beyond is left out."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One (kernel, stream role): arrays (cluster, rank), `count` 0 where a rank has fewer clusters.

    Times are logarithms of nanoseconds; `log_max` and `log_mean` are NaN in paper mode.
    """

    key: tuple[int, int]
    count: Floats
    log_p50: Floats
    log_p99: Floats
    log_max: Floats
    log_mean: Floats


@dataclass(frozen=True, kw_only=True)
class KernelTable:
    """All blobs of a window. `kernels` are (name hash, role hash), sorted by `mixed`; `ranks` are global, sorted.

    `refused` counts blobs that could not be read and ranks that had come before, by reason.
    """

    blobs: tuple[Blob, ...]
    bundled: Bundle
    number: Ints  # (entry,) place in `kernels`
    by_kernel: Ints  # entries in the order of `number`
    cuts: Ints  # (kernel + 1,) bounds of each kernel in `by_kernel`
    place: Ints  # place in `ranks` of the members of all blobs, one after the other; −1: the rank came before
    first_place: Ints  # (blob,) where a blob's members begin in `place`
    ranks: Ints
    kernels: tuple[tuple[int, int], ...]
    mixed: NDArray[np.uint64]
    texts: Mapping[int, str]
    events: Ints  # (rank,)
    clusters: Ints  # (rank,)
    refused: Mapping[str, int]

    def text(self, key: int) -> str:
        """Name behind a content hash; the hash itself until its definition arrives."""
        return self.texts.get(key, f"kernel:{key:016x}")


def open_table(payloads: Iterable[bytes], *, texts: Mapping[int, str] | None = None) -> KernelTable:
    """Heads of all blobs; a rank sent twice counts once, the first time."""
    blobs, names, refused = _opened(payloads)
    heads = np.concatenate([blob.ranks for blob in blobs] or [np.empty(0, RANK)])
    ranks, order, place = np.unique(heads["rank"].astype(np.int64), return_index=True, return_inverse=True)
    is_first = order[place] == np.arange(len(heads))
    bundled = bundle(blobs)
    mixed = _mix(bundled.index)
    known, head, number = np.unique(mixed, return_index=True, return_inverse=True)
    number = number.reshape(-1)
    keys = zip(bundled.index["name"][head].tolist(), bundled.index["role"][head].tolist(), strict=True)
    return KernelTable(
        blobs=tuple(blobs),
        bundled=bundled,
        number=number,
        by_kernel=np.argsort(number, kind="stable"),
        cuts=np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(known)))]),
        place=np.where(is_first, place, -1),
        first_place=np.cumsum(bundled.num_ranks) - bundled.num_ranks,
        ranks=ranks,
        kernels=tuple(keys),
        mixed=known,
        texts={**(texts or {}), **names},
        events=heads["events"][order].astype(np.int64),
        clusters=heads["clusters"][order].astype(np.int64),
        refused=refused,
    )


def _opened(payloads: Iterable[bytes]) -> tuple[list[Blob], dict[int, str], dict[str, int]]:
    """The blobs that can be read, the names they define, and why others cannot."""
    blobs: list[Blob] = []
    names: dict[int, str] = {}
    refused: Counter[str] = Counter()
    seen: set[int] = set()
    for payload in payloads:
        try:
            blob = open_blob(payload)
            texts = blob.texts()
        except WireError as error:
            refused[str(error)[:60]] += 1
            continue
        new = {int(rank) for rank in blob.ranks["rank"]} - seen
        if twice := len(blob.ranks) - len(new):
            refused["a rank was sent twice"] += twice
        if not new:
            continue
        names |= texts
        seen |= new
        blobs.append(blob)
    return blobs, names, refused


def dense(table: KernelTable, first: int, *, last: int) -> tuple[Kernel, ...]:
    """Kernels `first` … `last` − 1 of every rank of the table. Raises WireError on a damaged chunk."""
    wanted = table.by_kernel[table.cuts[first] : table.cuts[last]]
    rows = read(table.bundled, entries=wanted)
    place = table.place[table.first_place[table.bundled.blob[wanted]][rows.entry] + rows.member]
    kernel = table.number[wanted][rows.entry] - first
    if (table.place < 0).any():
        kept = place >= 0
        rows, kernel, place = rows.where(kept), kernel[kept], place[kept]
    return _scatter(table, rows, kernel=kernel, place=place, first=first, num=last - first)


def _scatter(
    table: KernelTable, rows: Clusters, *, kernel: Ints, place: Ints, first: int, num: int
) -> tuple[Kernel, ...]:
    most = int(rows.clusters.max(initial=1))
    wide = min(most, MAX_CLUSTERS)
    kept = slice(None) if most == wide else np.flatnonzero(rows.slot < wide)
    at = ((kernel * wide + rows.slot) * len(table.ranks) + place)[kept]
    columns = {}
    for name in ("count", "log_p50", "log_p99", "log_max", "log_mean"):
        column = np.zeros((num, wide, len(table.ranks)), np.float32)
        column.reshape(-1)[at] = getattr(rows, name)[kept]
        columns[name] = column
    return tuple(
        Kernel(
            key=table.kernels[first + i],
            count=columns["count"][i],
            log_p50=columns["log_p50"][i],
            log_p99=columns["log_p99"][i],
            log_max=columns["log_max"][i],
            log_mean=columns["log_mean"][i],
        )
        for i in range(num)
    )


def _mix(index: Rows) -> NDArray[np.uint64]:
    """One sortable number for the name and the role of each index entry."""
    return np.asarray(index["name"] ^ (index["role"] * np.uint64(0x9E3779B97F4A7C15)))
