"""Where the fields of a kernel's chunk lie, computed alike by the side that packs and the side that reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.collectors.records.bits import Ints, ramp

COLUMNS = ("count", "p50", "p99", "max", "mean", "ident")
NUM_COLUMNS = len(COLUMNS)

FRAMES_BITS = 8
CLUSTERS_BITS = 9  # paper mode may keep 256
WIDTH_BITS = 6


@dataclass(frozen=True, kw_only=True)
class FrameLayout:
    """Bit position of each frame in its kernel's chunk; `end` (kernel,) is one past the last frame."""

    kernel: Ints
    at: Ints
    end: Ints


@dataclass(frozen=True, kw_only=True)
class SlotLayout:
    """Bit positions of each slot's keyframe values and widths (slot, column); `end` as in FrameLayout."""

    frame: Ints
    kernel: Ints
    base_at: Ints
    width_at: Ints
    end: Ints


def frame_layout(num_frames: Ints, *, num_ranks: Ints) -> FrameLayout:
    """From the frames of each kernel and the ranks of its blob, both (kernel,)."""
    kernel = np.repeat(np.arange(len(num_frames)), num_frames)
    size = CLUSTERS_BITS + num_ranks
    at = FRAMES_BITS + ramp(num_frames) * size[kernel]
    return FrameLayout(kernel=kernel, at=at, end=FRAMES_BITS + num_frames * size)


def slot_layout(frames: FrameLayout, clusters: Ints, *, base_width: Ints) -> SlotLayout:
    """From the clusters of each frame (frame,) and the keyframe widths (kernel, column)."""
    frame = np.repeat(np.arange(len(clusters)), clusters)
    kernel = frames.kernel[frame]
    num_slots = np.bincount(kernel, minlength=len(frames.end))
    bases = base_width.sum(axis=1)
    size = bases + NUM_COLUMNS * WIDTH_BITS
    at = frames.end[kernel] + ramp(num_slots) * size[kernel]
    before = np.cumsum(base_width, axis=1) - base_width
    widths = np.arange(NUM_COLUMNS) * WIDTH_BITS
    return SlotLayout(
        frame=frame,
        kernel=kernel,
        base_at=at[:, None] + before[kernel],
        width_at=(at + bases[kernel])[:, None] + widths,
        end=frames.end + num_slots * size,
    )


def delta_layout(slots: SlotLayout, width: Ints, *, members: Ints) -> tuple[Ints, Ints]:
    """Bit position of the first member's difference (slot, column), and each chunk's end (kernel,)."""
    bits = width * members[:, None]
    before = (np.cumsum(bits) - bits.reshape(-1)).reshape(bits.shape)
    num_kernels = len(slots.end)
    per_kernel = np.bincount(slots.kernel, bits.sum(axis=1), num_kernels).astype(np.int64)
    start = np.cumsum(per_kernel) - per_kernel
    return before + (slots.end - start)[slots.kernel][:, None], slots.end + per_kernel
