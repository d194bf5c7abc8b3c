"""Cut a buffer of CUPTI activity records into arrays, a run of equal kind at a time.

Records follow each other without a length; each begins with its kind, and the layouts say how long a
record of a kind is. What cannot be read ends the buffer: its bytes are counted, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from argus.collectors.rank.cupti.kinds import (
    API_KINDS,
    COPY_NAMES,
    LAUNCH,
    MEMCPY,
    MEMCPY2,
    MEMSET,
    MEMSET_NAME,
    WORK,
    WORK_KINDS,
)
from argus.collectors.records.events import Rows

Bytes = NDArray[np.uint8]
Layouts = Mapping[int, np.dtype[Any]]
"""The dtype of each kind's records; itemsizes are multiples of `ALIGNMENT`."""

ReadName = Callable[[int], str]
"""The text a record's name points to."""

ALIGNMENT = 8  # ACTIVITY_RECORD_ALIGNMENT of cupti_common.h
FIRST_CHUNK = 16  # records compared at first; long runs are looked at in growing pieces


SHORT_RUNS = 64
SHORT_RUN = 4
"""From so many runs of fewer than so many records on average, records are walked one by one instead."""

RUN = np.dtype([("kind", "<i4"), ("offset", "<i8"), ("count", "<i8")])
"""`count` records of one kind that follow each other from byte `offset` on."""


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What a buffer held. `names` are the texts WORK.name indexes, as CUPTI gives them."""

    work: Rows = field(default_factory=lambda: np.empty(0, WORK))
    launches: Rows = field(default_factory=lambda: np.empty(0, LAUNCH))
    names: tuple[str, ...] = ()
    lost_bytes: int = 0
    unknown_kind: int | None = None  # the kind that ended the buffer early

    @property
    def num_records(self) -> int:
        """Records that were read."""
        return len(self.work) + len(self.launches)


def decode(buffer: Bytes, layouts: Layouts, *, read_name: ReadName) -> Decoded:
    """The records of `buffer`, which begins at an address that is a multiple of 8."""
    runs, end, unknown = find_runs(buffer, {kind: dtype.itemsize for kind, dtype in layouts.items()})
    kinds = np.unique(runs["kind"]).tolist()
    rows = {kind: gather(buffer, layouts[kind], runs[runs["kind"] == kind]) for kind in kinds}
    names = Names(read_name)
    work = [work_of(kind, part, names=names) for kind, part in rows.items() if kind in WORK_KINDS]
    launches = [launches_of(part) for kind, part in rows.items() if kind in API_KINDS]
    return Decoded(
        work=np.concatenate(work) if work else np.empty(0, WORK),
        launches=np.concatenate(launches) if launches else np.empty(0, LAUNCH),
        names=tuple(names.texts),
        lost_bytes=len(buffer) - end,
        unknown_kind=unknown,
    )


def find_runs(buffer: Bytes, sizes: Mapping[int, int]) -> tuple[Rows, int, int | None]:
    """RUN rows, the first byte that is in none, and the kind found there if it has no size."""
    words = buffer[: len(buffer) // 4 * 4].view("<i4")
    runs: list[tuple[int, int, int]] = []
    offset = num_records = 0
    while offset + 4 <= len(buffer):
        kind = int(words[offset // 4])
        size = sizes.get(kind)
        if size is None:
            return np.array(runs, RUN), offset, kind
        limit = (len(buffer) - offset) // size
        if not limit:
            break
        count = _count_equal(words[offset // 4 :: size // 4][:limit], kind)
        runs.append((kind, offset, count))
        offset, num_records = offset + count * size, num_records + count
        if len(runs) >= SHORT_RUNS and num_records < SHORT_RUN * len(runs):
            rest, end, unknown = walk(buffer, sizes, start=offset)
            return np.concatenate([np.array(runs, RUN), rest]), end, unknown
    return np.array(runs, RUN), offset, None


def walk(buffer: Bytes, sizes: Mapping[int, int], *, start: int) -> tuple[Rows, int, int | None]:
    """As `find_runs` from byte `start` on, for kinds that take turns: each run is one record."""
    num_slots = len(buffer) // ALIGNMENT
    kinds = buffer[: num_slots * ALIGNMENT].view("<i4")[::2]
    table = np.zeros(max(sizes) + 2, np.int64)
    table[list(sizes)] = [size // ALIGNMENT for size in sizes.values()]
    lengths = table[np.where((kinds < 0) | (kinds > max(sizes)), len(table) - 1, kinds)].tolist()
    slot, slots = start // ALIGNMENT, list[int]()
    while slot < num_slots and lengths[slot] and slot + lengths[slot] <= num_slots:
        slots.append(slot)
        slot += lengths[slot]
    runs = np.zeros(len(slots), RUN)
    runs["kind"], runs["count"] = kinds[slots], 1
    runs["offset"] = np.array(slots, np.int64) * ALIGNMENT
    is_unknown = slot < num_slots and not lengths[slot]
    return runs, slot * ALIGNMENT, int(kinds[slot]) if is_unknown else None


def _count_equal(kinds: NDArray[np.int32], kind: int) -> int:
    """How many entries from the first one on equal `kind`."""
    at, chunk = 0, FIRST_CHUNK
    while at < len(kinds):
        others = np.flatnonzero(kinds[at : at + chunk] != kind)
        if len(others):
            return at + int(others[0])
        at, chunk = at + chunk, chunk * 8
    return len(kinds)


def gather(buffer: Bytes, dtype: np.dtype[Any], runs: Rows) -> Rows:
    """The records of several runs of one kind; a view of the buffer where there is only one."""
    counts, offsets = runs["count"], runs["offset"]
    if len(runs) == 1:
        return np.frombuffer(buffer, dtype, int(counts[0]), int(offsets[0]))
    size = dtype.itemsize
    before = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(int(counts.sum())) - before
    slots = np.repeat(offsets // ALIGNMENT, counts) + within * (size // ALIGNMENT)
    windows = as_strided(buffer, ((len(buffer) - size) // ALIGNMENT + 1, size), (ALIGNMENT, 1))
    taken: Rows = windows[slots].view(dtype)[:, 0]
    return taken


class Names:
    """Texts by the address CUPTI keeps them at; each is read once a buffer."""

    def __init__(self, read: ReadName) -> None:
        self.texts: list[str] = []
        self._read = read

    def of(self, pointers: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Index of each pointer's text."""
        distinct, inverse = np.unique(pointers, return_inverse=True)
        first = len(self.texts)
        self.texts += [self._read(int(pointer)) for pointer in distinct]
        return np.asarray(inverse + first, np.uint32)

    def fixed(self, names: Sequence[str]) -> NDArray[np.uint32]:
        """Index of each of a few texts of our own."""
        distinct = dict.fromkeys(names)
        place = {name: len(self.texts) + i for i, name in enumerate(distinct)}
        self.texts += distinct
        return np.array([place[name] for name in names], np.uint32)


def work_of(kind: int, rows: Rows, *, names: Names) -> Rows:
    """WORK rows of records of one kind, whatever their version."""
    out = np.zeros(len(rows), WORK)
    out["kind"] = kind
    out["start"], out["end"] = rows["start"].astype(np.int64), rows["end"].astype(np.int64)
    out["stream"], out["correlation"] = rows["stream_id"], rows["correlation_id"]
    out["graph"] = rows["graph_id"]
    if kind in (MEMCPY, MEMCPY2):
        kinds, inverse = np.unique(rows["copy_kind"], return_inverse=True)
        texts = [COPY_NAMES.get(int(copy), "Memcpy") for copy in kinds]
        out["name"], out["detail"] = names.fixed(texts)[inverse], rows["copy_kind"]
    elif kind == MEMSET:
        out["name"] = names.fixed([MEMSET_NAME])[0]
    else:
        out["name"] = names.of(rows["name"])
    return out


def launches_of(rows: Rows) -> Rows:
    """LAUNCH rows of API records."""
    out = np.zeros(len(rows), LAUNCH)
    out["correlation"] = rows["correlation_id"]
    out["start"], out["end"] = rows["start"].astype(np.int64), rows["end"].astype(np.int64)
    return out
