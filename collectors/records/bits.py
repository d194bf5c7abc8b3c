"""Integers of any width up to 32 bits, packed and unpacked at given bit positions in one numpy pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

WORD = 32


def bit_length(values: Ints) -> Ints:
    """Bits needed for each non-negative value.

    >>> bit_length(np.array([0, 1, 2, 255, 256])).tolist()
    [0, 1, 2, 8, 9]
    """
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def zigzag(values: Ints) -> Ints:
    """Signed to unsigned, small magnitudes to small numbers."""
    return (values << 1) ^ (values >> 63)


def unzigzag(values: Ints) -> Ints:
    """Inverse of `zigzag`."""
    return (values >> 1) ^ -(values & 1)


def put(values: Ints, positions: Ints, *, num_bytes: int) -> bytes:
    """`num_bytes` bytes that hold each value at its bit position; fields must not overlap."""
    words = -(-num_bytes // 4) + 1
    low, shift = positions // WORD, positions % WORD
    wide = values.astype(np.uint64) << shift.astype(np.uint64)
    # Disjoint fields of a 32-bit word add up without carry and exactly in float64.
    total = np.bincount(low, (wide & np.uint64(0xFFFFFFFF)).astype(np.float64), words)
    total += np.bincount(low + 1, (wide >> np.uint64(WORD)).astype(np.float64), words + 1)[:words]
    return total.astype("<u4").tobytes()[:num_bytes]


def words_of(payload: bytes) -> NDArray[np.uint64]:
    """What `get` reads from: each 32-bit word of `payload` joined with the next."""
    padded = payload + bytes(-len(payload) % 4 + 8)
    words = np.frombuffer(padded, "<u4").astype(np.uint64)
    return np.asarray(words[:-1] | (words[1:] << np.uint64(WORD)))


def get(words: NDArray[np.uint64], positions: Ints, *, widths: Ints | int) -> Ints:
    """The values at `positions`, `widths` bits each."""
    shift = (positions & (WORD - 1)).astype(np.uint64)
    mask = (np.uint64(1) << np.asarray(widths, np.uint64)) - np.uint64(1)
    return np.asarray((words[positions >> 5] >> shift) & mask).astype(np.int64)


def ramp(counts: Ints) -> Ints:
    """0, 1, …, c − 1 for each count c, one after the other.

    >>> ramp(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
