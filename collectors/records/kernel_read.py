"""Packed kernel summaries read back: all of many blobs at once, or one kernel of one blob."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.bits import Ints, get, ramp, unzigzag, words_of
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_blob import (
    HEAD,
    INDEX,
    LOG_STEP,
    MAGIC,
    MAX_CLUSTERS,
    MAX_KERNEL_BYTES,
    MAX_KERNELS,
    MAX_RANKS,
    MAX_VALUE,
    MEAN_STEP,
    RANK,
    VERSION,
)
from argus.collectors.records.kernel_chunk import (
    CLUSTERS_BITS,
    FRAMES_BITS,
    NUM_COLUMNS,
    WIDTH_BITS,
    delta_layout,
    frame_layout,
    slot_layout,
)
from argus.collectors.records.kernels import CLUSTER, MODES, KernelSummary

Floats = NDArray[np.float32]

KEPT_TAIL = 1 << 18
"""Bytes of a tail whose names are remembered: a thousand of some 200 characters. Many long ones would fill the memory."""


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A blob whose head, rank table and index are read and checked; chunks are not yet."""

    mode: str
    ranks: Rows  # RANK
    index: Rows  # INDEX
    base_width: Ints  # (column,)
    chunks: bytes
    tail: bytes

    def texts(self) -> Mapping[int, str]:
        """Definitions the sender added: content hash to name. Raises WireError."""
        return (_texts if len(self.tail) <= KEPT_TAIL else _texts.__wrapped__)(self.tail)

    def dropped(self) -> Mapping[int, Mapping[str, int]]:
        """Events left out, by rank and reason. Raises WireError."""
        raw = _object(self.tail, "dropped")
        try:
            return {int(r): {str(k)[:64]: int(v) for k, v in d.items()} for r, d in raw.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise WireError(f"kernel drops: {error!r:.80}") from None


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Clusters of many ranks, one row each; all arrays (row,).

    `entry` numbers the index entries that were read, blob after blob; `member` is the rank's place in its
    blob's `ranks`; `slot` counts the rank's `clusters` of the kernel from 0, fastest first. Times are
    natural logarithms of nanoseconds; `log_max` and `log_mean` are NaN in paper mode.
    """

    entry: Ints
    member: Ints
    slot: Ints
    clusters: Ints
    count: Ints
    ident: Ints
    log_p50: Floats
    log_p99: Floats
    log_max: Floats
    log_mean: Floats

    def of(self, entry: int) -> Clusters:
        """The rows of one of the entries that were read."""
        return self.where(self.entry == entry)

    def where(self, kept: NDArray[np.bool_]) -> Clusters:
        """Some of the rows; `kept` (row,)."""
        return Clusters(**{item.name: getattr(self, item.name)[kept] for item in fields(self)})


def open_blob(payload: bytes) -> Blob:
    """Head and index of a blob. Raises WireError."""
    if len(payload) < HEAD.size:
        raise WireError("kernel blob is shorter than its head")
    if len(payload) > MAX_KERNEL_BYTES:
        raise WireError(f"kernel blob of more than {MAX_KERNEL_BYTES} bytes")
    magic, version, mode, ranks, kernels, size, tail, widths = HEAD.unpack_from(payload)
    if magic != MAGIC:
        raise WireError(f"kernel blob of unknown magic {magic!r}")
    if version != VERSION:
        raise WireError(f"kernel blob of version {version}, this side speaks {VERSION}")
    if mode >= len(MODES) or not 1 <= ranks <= MAX_RANKS or kernels > MAX_KERNELS or max(widths) > 32:
        raise WireError(f"kernel blob of mode {mode}, {ranks} ranks and {kernels} kernels")
    at = HEAD.size + ranks * RANK.itemsize
    start = at + kernels * INDEX.itemsize
    if start + size + tail != len(payload):
        raise WireError(f"kernel blob of {len(payload)} bytes, {start + size + tail} announced")
    index = np.frombuffer(payload, INDEX, kernels, at)
    if kernels and (np.diff(index["offset"].astype(np.int64)) < 0).any() or (index["offset"] >= size).any():
        raise WireError("kernel blob with an offset outside its chunks")
    return Blob(
        mode=MODES[mode],
        ranks=np.frombuffer(payload, RANK, ranks, HEAD.size),
        index=index,
        base_width=np.frombuffer(widths, np.uint8).astype(np.int64),
        chunks=payload[start : start + size],
        tail=payload[start + size :],
    )


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Many blobs laid end to end for reading: `index` (entry,) of all, `blob` (entry,) says whose it is.

    `start` and `end` (entry,) bound each chunk's bits in `words`; the rest is (blob,).
    """

    index: Rows
    blob: Ints
    words: NDArray[np.uint64]
    start: Ints
    end: Ints
    num_ranks: Ints
    base_width: Ints
    is_paper: NDArray[np.bool_]


def bundle(blobs: Sequence[Blob]) -> Bundle:
    """Lay blobs out for `read`."""
    padded = [blob.chunks + bytes(-len(blob.chunks) % 4) for blob in blobs]
    sizes = np.array([len(part) for part in padded], np.int64)
    begins = np.cumsum(sizes) - sizes
    blob_of = np.repeat(np.arange(len(blobs)), [len(blob.index) for blob in blobs])
    index = np.concatenate([blob.index for blob in blobs] or [np.empty(0, INDEX)])
    start = index["offset"] + begins[blob_of]
    # A chunk ends where the next begins: entries that shared one would multiply its few bytes.
    ends = (begins + np.array([len(blob.chunks) for blob in blobs], np.int64))[blob_of]
    inner = np.flatnonzero(blob_of[1:] == blob_of[:-1])
    ends[inner] = start[inner + 1]
    return Bundle(
        index=index,
        blob=blob_of,
        words=words_of(b"".join(padded)),
        start=start * 8,
        end=ends * 8,
        num_ranks=np.array([len(blob.ranks) for blob in blobs], np.int64),
        base_width=np.array([blob.base_width for blob in blobs], np.int64).reshape(-1, NUM_COLUMNS),
        is_paper=np.array([blob.mode == "paper" for blob in blobs], np.bool_),
    )


def read(bundled: Bundle, *, entries: Ints | None = None) -> Clusters:
    """Clusters of some index entries, all if None. Raises WireError on any inconsistency."""
    picked = np.arange(len(bundled.index)) if entries is None else entries
    blob = bundled.blob[picked]
    reader = _Reader(words=bundled.words, start=bundled.start[picked], end=bundled.end[picked])
    if not len(picked):
        none = [np.empty(0, np.int64) for _ in range(NUM_COLUMNS)]
        return _collect(_Slots.nothing(), none, is_paper=np.empty(0, np.bool_))
    slots = _read_slots(
        reader, blob=blob, num_ranks=bundled.num_ranks[blob], base_width=bundled.base_width[blob]
    )
    return _collect(slots, _read_values(reader, slots), is_paper=bundled.is_paper[blob])


def summaries_of(blob: Blob, *, texts: Mapping[int, str]) -> tuple[KernelSummary, ...]:
    """The blob as one summary a rank, times as they were before packing, up to its precision."""
    rows = read(bundle([blob]))
    out = []
    for place, head in enumerate(blob.ranks):
        mine = np.flatnonzero(rows.member == place)
        mine = mine[np.lexsort((rows.slot[mine], rows.entry[mine]))]
        entries, kernel = np.unique(rows.entry[mine], return_inverse=True)
        clusters = np.zeros(len(mine), CLUSTER)
        clusters["kernel"], clusters["count"] = kernel.reshape(-1), rows.count[mine]
        clusters["ident"] = rows.ident[mine]
        for column, logs in (("p50_ns", rows.log_p50), ("p99_ns", rows.log_p99), ("max_ns", rows.log_max)):
            clusters[column] = np.exp(logs[mine].astype(np.float64))
        clusters["sum_ns"] = np.exp(rows.log_mean[mine].astype(np.float64)) * rows.count[mine]
        pairs = [blob.index[int(i)] for i in entries]
        out.append(
            KernelSummary(
                rank=int(head["rank"]),
                events=int(head["events"]),
                mode=blob.mode,
                kernels=tuple(
                    (_name(int(pair["name"]), texts), _name(int(pair["role"]), texts)) for pair in pairs
                ),
                clusters=clusters,
                dropped=blob.dropped().get(int(head["rank"]), {}),
            )
        )
    return tuple(out)


def _name(key: int, texts: Mapping[int, str]) -> str:
    """A kernel whose definition has not arrived goes by its hash."""
    return texts.get(key, f"kernel:{key:016x}")


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Bits of all chunks; `start` and `end` (entry,) bound each."""

    words: NDArray[np.uint64]
    start: Ints
    end: Ints

    def get(self, entry: Ints, at: Ints, *, widths: Ints) -> Ints:
        """Fields at bit `at` of the chunks of `entry`."""
        place = self.start[entry] + at
        if len(place) and ((place + widths) > self.end[entry]).any():
            raise WireError("kernel blob is cut inside a chunk")
        return get(self.words, place, widths=widths)


@dataclass(frozen=True, kw_only=True)
class _Slots:
    """Every cluster of every frame: (slot,) and (slot, column); `first_member` indexes `member`."""

    entry: Ints
    clusters: Ints
    number: Ints
    base: Ints
    width: Ints
    delta_at: Ints
    members: Ints
    first_member: Ints
    member: Ints

    @staticmethod
    def nothing() -> _Slots:
        """No clusters at all."""
        none, wide = np.empty(0, np.int64), np.empty((0, NUM_COLUMNS), np.int64)
        return _Slots(
            entry=none,
            clusters=none,
            number=none,
            base=wide,
            width=wide,
            delta_at=wide,
            members=none,
            first_member=none,
            member=none,
        )


def _read_slots(reader: _Reader, *, blob: Ints, num_ranks: Ints, base_width: Ints) -> _Slots:
    entries = np.arange(len(reader.start))
    num_frames = reader.get(entries, np.zeros_like(entries), widths=np.full(len(entries), FRAMES_BITS))
    if (num_frames > num_ranks).any():
        raise WireError("kernel blob with more frames than ranks")
    _check_sizes(num_frames, blob)  # before any array is as long as they announce
    frame = frame_layout(num_frames, num_ranks=num_ranks)
    clusters = reader.get(frame.kernel, frame.at, widths=np.full(len(frame.at), CLUSTERS_BITS))
    is_member = _is_member(reader, frame.kernel, frame.at + CLUSTERS_BITS, num_ranks=num_ranks)
    members = is_member.sum(axis=1, dtype=np.int64)
    if (clusters == 0).any() or (members == 0).any():
        raise WireError("kernel blob with an empty frame")
    _check_sizes(clusters * members, blob[frame.kernel])
    slot = slot_layout(frame, clusters, base_width=base_width)
    entry = slot.kernel[:, None]
    base = reader.get(entry, slot.base_at, widths=base_width[slot.kernel])
    width = reader.get(entry, slot.width_at, widths=np.full(slot.width_at.shape, WIDTH_BITS))
    if (width > 32).any():
        raise WireError("kernel blob with a field wider than 32 bits")
    delta_at, ends = delta_layout(slot, width, members=members[slot.frame])
    if (reader.start + ends > reader.end).any():
        raise WireError("kernel blob is cut inside a chunk")
    first_member = np.cumsum(members) - members
    return _Slots(
        entry=slot.kernel,
        clusters=clusters[slot.frame],
        number=ramp(clusters),
        base=base,
        width=width,
        delta_at=delta_at + reader.start[slot.kernel][:, None],
        members=members[slot.frame],
        first_member=first_member[slot.frame],
        member=np.nonzero(is_member)[1].astype(np.int64),
    )


def _check_sizes(clusters: Ints, blob: Ints) -> None:
    """Refuse a blob whose parts have too many clusters in all; both (part,)."""
    most = int(np.bincount(blob, clusters).max(initial=0))
    if most > MAX_CLUSTERS:
        raise WireError(f"kernel blob of {most} clusters, the limit is {MAX_CLUSTERS}")


def _is_member(reader: _Reader, entry: Ints, at: Ints, *, num_ranks: Ints) -> NDArray[np.uint8]:
    """Whether a rank of the blob's table belongs to a frame. (frame, rank)"""
    ranks = num_ranks[entry]
    low = reader.get(entry, at, widths=np.minimum(ranks, 32))
    high = reader.get(entry, at + np.minimum(ranks, 32), widths=np.maximum(ranks - 32, 0))
    mask = (low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))).astype("<u8")
    bits = np.unpackbits(mask.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return bits[:, : int(ranks.max(initial=0))]


def _read_values(reader: _Reader, slots: _Slots) -> list[Ints]:
    """Quantised values (row,) of each column, rows in order of slot and member."""
    turn = ramp(slots.members)
    columns = []
    for column in range(NUM_COLUMNS):
        values = np.repeat(slots.base[:, column], slots.members)
        width = slots.width[:, column]
        if width.any():  # ranks mostly agree on counts: nothing to read there
            wide = np.repeat(width, slots.members)
            at = np.repeat(slots.delta_at[:, column], slots.members) + turn * wide
            values += unzigzag(get(reader.words, at, widths=wide))
        columns.append(values)
    return columns


def _collect(slots: _Slots, columns: Sequence[Ints], *, is_paper: NDArray[np.bool_]) -> Clusters:
    count, p50, p99, top, mean, ident = (np.clip(column, 0, MAX_VALUE) for column in columns)
    entry = np.repeat(slots.entry, slots.members)
    member = slots.member[np.repeat(slots.first_member, slots.members) + ramp(slots.members)]
    step, fine = np.float32(LOG_STEP), np.float32(MEAN_STEP)
    p99 += p50
    top += p99
    log_p50 = p50.astype(np.float32) * step
    log_max = top.astype(np.float32) * step
    log_mean = log_p50 + unzigzag(mean).astype(np.float32) * fine
    if is_paper.any():
        unknown = is_paper[entry]
        log_max[unknown], log_mean[unknown] = np.nan, np.nan
    return Clusters(
        entry=entry,
        member=member,
        slot=np.repeat(slots.number, slots.members),
        clusters=np.repeat(slots.clusters, slots.members),
        count=count,
        ident=ident,
        log_p50=log_p50,
        log_p99=p99.astype(np.float32) * step,
        log_max=log_max,
        log_mean=log_mean,
    )


@lru_cache(maxsize=64)
def _texts(tail: bytes) -> Mapping[int, str]:
    """Names by content hash; the hosts of a job mostly define the same ones."""
    names = _object(tail, "names")
    try:
        return MappingProxyType({int(key, 16): _whole(str(text)[:1024]) for key, text in names.items()})
    except (TypeError, ValueError) as error:
        raise WireError(f"kernel names: {error!r:.80}") from None


def _whole(text: str) -> str:
    """Without halves of characters, which JSON can spell and no database holds; its hash is of the same bytes."""
    return text.encode(errors="replace").decode()


def _object(tail: bytes, key: str) -> dict[str, Any]:
    try:
        raw = json.loads(tail)
    except (ValueError, RecursionError) as error:
        raise WireError(f"kernel blob ends in no JSON: {error}") from None
    part = raw.get(key, {}) if isinstance(raw, dict) else None
    if not isinstance(part, dict):
        raise WireError(f"kernel blob ends in no JSON object with {key!r}")
    return part
