"""The packed kernel summaries of one host and window: kernel-major, with an offset index, decodable alone.

Values are quantised logarithms relative to a keyframe of the same blob: ranks that have the same number of
clusters of a kernel form a frame, the frame's mean is written once, each rank as its difference to it in as
few bits as the frame needs. Layout (little-endian):

    head | ranks (RANK) | index (INDEX, sorted) | chunks, one per kernel | JSON {"names", "dropped"}

A chunk: number of frames; per frame the cluster count and a bit per rank; per cluster its keyframe values
and difference widths; the differences. Reading one kernel takes its index entry and its chunk.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.collectors.records.bits import Ints, bit_length, put, ramp, zigzag
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_chunk import (
    CLUSTERS_BITS,
    NUM_COLUMNS,
    delta_layout,
    frame_layout,
    slot_layout,
)
from argus.collectors.records.kernels import MODES, KernelSummary, name_hash

MAGIC = b"AKB"
VERSION = 1
HEAD = struct.Struct("<3sBBHIII6s")
"""Magic, version, mode, ranks, kernels, chunk bytes, JSON bytes, keyframe width of each column."""

LOG_STEP = 0.002
"""Step of the logarithm of p50, p99/p50 and max/p99: each is right to 0.1 %, half of the stated 0.2 %."""

MEAN_STEP = 0.0001
"""Step of log(mean/p50): means decide what a slowdown costs, and a 5 % shift must come out within 1 %."""

MAX_VALUE = (1 << 31) - 1
MAX_RANKS = 64
"""Ranks of one blob; no host has more GPUs, and a frame keeps one bit for each."""

MAX_KERNEL_BYTES = 4 << 20
"""Bytes of one blob; ten times what 64 ranks with 500 kernels need."""

MAX_KERNELS = 1 << 16
MAX_CLUSTERS = 1 << 19
"""Clusters of all ranks and kernels in one blob: twice eight of each of 500 kernels on 64 ranks. A sender may announce
any number in a few bytes."""

RANK = np.dtype([("rank", "<u4"), ("events", "<u8"), ("clusters", "<u4")])
INDEX = np.dtype([("name", "<u8"), ("role", "<u8"), ("offset", "<u4")])
"""One kernel: content hashes of its name and stream role, first byte of its chunk."""


def encode(summaries: Sequence[KernelSummary], *, names: Mapping[int, str] | None = None) -> bytes:
    """One blob of the ranks of a host. `names` are the definitions to send along, all of them if None.

    ValueError if there are none, too many, a rank twice, or different modes.
    """
    summaries = sorted(summaries, key=lambda summary: summary.rank)
    _check(summaries)
    index, kernel_of = _kernels(summaries)
    rows = _rows(summaries, kernel_of)
    frames = _frames(rows)
    base_width = bit_length(frames.base.max(axis=0, initial=0))
    index["offset"], chunks = _chunks(rows, frames, num_ranks=len(summaries), base_width=base_width)
    ranks = np.array([(s.rank, s.events, len(s.clusters)) for s in summaries], RANK)
    if names is None:
        texts = {text for summary in summaries for pair in summary.kernels for text in pair}
        names = {name_hash(text): text for text in texts}
    tail = json.dumps(
        {
            "names": {f"{key:x}": names[key] for key in sorted(names)},
            "dropped": {str(s.rank): dict(s.dropped) for s in summaries if s.dropped},
        },
        separators=(",", ":"),
    ).encode()
    mode = MODES.index(summaries[0].mode)
    head = HEAD.pack(
        MAGIC, VERSION, mode, len(ranks), len(index), len(chunks), len(tail), bytes(base_width.tolist())
    )
    return head + ranks.tobytes() + index.tobytes() + chunks + tail


def _check(summaries: Sequence[KernelSummary]) -> None:
    if not 1 <= len(summaries) <= MAX_RANKS:
        raise ValueError(f"a blob holds 1 to {MAX_RANKS} ranks, got {len(summaries)}")
    if len({summary.rank for summary in summaries}) < len(summaries):
        raise ValueError(f"a rank occurs twice: {[summary.rank for summary in summaries]}")
    if len({summary.mode for summary in summaries}) > 1:
        raise ValueError("summaries of different modes cannot share a blob")


def _kernels(summaries: Sequence[KernelSummary]) -> tuple[Rows, list[Ints]]:
    """Sorted index without offsets, and per summary the index row of each of its kernels."""
    hashed = [[(name_hash(name), name_hash(role)) for name, role in s.kernels] for s in summaries]
    order = sorted({pair for pairs in hashed for pair in pairs})
    place = {pair: i for i, pair in enumerate(order)}
    index = np.zeros(len(order), INDEX)
    index["name"] = np.array([name for name, _ in order], np.uint64)
    index["role"] = np.array([role for _, role in order], np.uint64)
    return index, [np.array([place[pair] for pair in pairs], np.int64) for pairs in hashed]


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Clusters of all ranks, sorted by (kernel, clusters of the rank, slot, rank); `value` (row, column)."""

    kernel: Ints
    clusters: Ints
    slot: Ints
    rank: Ints
    value: Ints


def _rows(summaries: Sequence[KernelSummary], kernel_of: Sequence[Ints]) -> _Rows:
    parts = zip(summaries, kernel_of, strict=True)
    kernel = np.concatenate([of[s.clusters["kernel"]] for s, of in parts])
    rank = np.repeat(np.arange(len(summaries)), [len(s.clusters) for s in summaries])
    value = quantise(np.concatenate([summary.clusters for summary in summaries]))
    # Rows of one rank are sorted by the summary's own kernel number, so a kernel's clusters are adjacent.
    new = np.ones(len(kernel), np.bool_)
    new[1:] = (kernel[1:] != kernel[:-1]) | (rank[1:] != rank[:-1])
    sizes = np.diff(np.append(np.flatnonzero(new), len(kernel)))
    slot, clusters = ramp(sizes), np.repeat(sizes, sizes)
    order = np.lexsort((rank, slot, clusters, kernel))
    return _Rows(
        kernel=kernel[order],
        clusters=clusters[order],
        slot=slot[order],
        rank=rank[order],
        value=value[order],
    )


def quantise(clusters: Rows) -> Ints:
    """Integers (row, column) of CLUSTER rows; each ratio is taken to the value as it will be read back."""
    value = np.zeros((len(clusters), NUM_COLUMNS), np.int64)
    p50 = np.rint(np.log(np.maximum(clusters["p50_ns"], 1.0)) / LOG_STEP)
    p99 = np.rint(np.log(np.maximum(clusters["p99_ns"], 1.0)) / LOG_STEP) - p50
    p99 = np.maximum(p99, 0)
    top = np.log(np.maximum(clusters["max_ns"], 1.0)) / LOG_STEP - p50 - p99
    mean = np.maximum(clusters["sum_ns"] / np.maximum(clusters["count"], 1), 1.0)
    mean = (np.log(mean) - p50 * LOG_STEP) / MEAN_STEP
    value[:, 0], value[:, 1], value[:, 2] = clusters["count"], p50, p99
    value[:, 3] = np.maximum(np.rint(np.nan_to_num(top)), 0)
    value[:, 4] = zigzag(np.rint(np.nan_to_num(mean)).astype(np.int64))
    value[:, 5] = clusters["ident"]
    return np.clip(value, 0, MAX_VALUE)


@dataclass(frozen=True, kw_only=True)
class _Frames:
    """Frames and their slots in kernel-major order; a slot is one cluster of a frame."""

    kernel: Ints  # (frame,)
    clusters: Ints  # (frame,)
    members: Ints  # (slot,)
    base: Ints  # (slot, column)
    width: Ints  # (slot, column)
    delta: Ints  # (row, column)


def _frames(rows: _Rows) -> _Frames:
    key = (rows.kernel << 20) | (rows.clusters << 10) | rows.slot
    first = np.flatnonzero(np.diff(key, prepend=-1))
    members = np.diff(np.append(first, len(key)))
    heads = first[rows.slot[first] == 0]
    if not len(first):
        nothing = np.empty((0, NUM_COLUMNS), np.int64)
        return _Frames(
            kernel=heads, clusters=heads, members=members, base=nothing, width=nothing, delta=nothing
        )
    base = np.rint(np.add.reduceat(rows.value, first, axis=0) / members[:, None]).astype(np.int64)
    delta = zigzag(rows.value - np.repeat(base, members, axis=0))
    return _Frames(
        kernel=rows.kernel[heads],
        clusters=rows.clusters[heads],
        members=members,
        base=base,
        width=bit_length(np.maximum.reduceat(delta, first, axis=0)),
        delta=delta,
    )


def _chunks(rows: _Rows, frames: _Frames, *, num_ranks: int, base_width: Ints) -> tuple[Ints, bytes]:
    """First byte of each kernel's chunk, and all chunks, each from a byte boundary on."""
    num_frames = np.bincount(frames.kernel)
    ranks = np.full(len(num_frames), num_ranks)
    bases = np.tile(base_width, (len(num_frames), 1))
    frame = frame_layout(num_frames, num_ranks=ranks)
    slot = slot_layout(frame, frames.clusters, base_width=bases)
    delta, ends = delta_layout(slot, frames.width, members=frames.members)
    num_bytes = -(-ends // 8)
    offsets = np.cumsum(num_bytes) - num_bytes
    start = offsets * 8
    row_slot = np.repeat(np.arange(len(frames.members)), frames.members)
    row_at = delta[row_slot] + ramp(frames.members)[:, None] * frames.width[row_slot]
    heads = rows.slot == 0
    row_frame = slot.frame[row_slot][heads]
    fields = (
        (num_frames, start),
        (frames.clusters, start[frame.kernel] + frame.at),
        (heads[heads], (start[frame.kernel] + frame.at)[row_frame] + CLUSTERS_BITS + rows.rank[heads]),
        (frames.base, start[slot.kernel][:, None] + slot.base_at),
        (frames.width, start[slot.kernel][:, None] + slot.width_at),
        (frames.delta, start[slot.kernel[row_slot]][:, None] + row_at),
    )
    values = np.concatenate([np.asarray(value, np.int64).reshape(-1) for value, _ in fields])
    places = np.concatenate([place.reshape(-1) for _, place in fields])
    return offsets, put(values, places, num_bytes=int(num_bytes.sum()))
