"""Activity buffers made once: handed to CUPTI empty, taken back full, a bounded number under way."""

from __future__ import annotations

from collections import deque

import numpy as np

from argus.collectors.rank.cupti.decode import ALIGNMENT, Bytes

BUFFER_BYTES = 1 << 20
"""About 3,600 launches with their kernels: small enough to come back within a second of a busy rank."""

NUM_BUFFERS = 24
"""24 MiB a rank: some seconds of 20,000 kernels a second while the parsing thread is kept off the CPU."""


class Pool:
    """Buffers by address. Called from CUPTI's threads: each step is one deque operation, no lock."""

    def __init__(self, *, num_buffers: int = NUM_BUFFERS, num_bytes: int = BUFFER_BYTES) -> None:
        self.num_bytes = num_bytes
        self.num_declined = 0
        self._memory = [_aligned(num_bytes) for _ in range(num_buffers)]
        self._by_address = {int(buffer.ctypes.data): buffer for buffer in self._memory}
        self._free: deque[int] = deque(self._by_address)
        self._full: deque[tuple[int, int]] = deque()

    def lend(self) -> int:
        """Address of an empty, zeroed buffer; 0 if all are under way, and then CUPTI drops records."""
        try:
            return self._free.popleft()
        except IndexError:
            self.num_declined += 1
            return 0

    def give_back(self, address: int, valid_bytes: int) -> None:
        """CUPTI is done with a buffer."""
        self._full.append((address, valid_bytes))

    def take(self) -> Bytes | None:
        """The oldest full buffer's bytes, None if there is none; `recycle` it after use."""
        try:
            address, valid = self._full.popleft()
        except IndexError:
            return None
        buffer = self._by_address.get(address)
        return None if buffer is None else buffer[: min(max(valid, 0), self.num_bytes)]

    def recycle(self, taken: Bytes) -> None:
        """Zero a taken buffer and lend it again; nothing may refer to its bytes any more."""
        taken[:] = 0
        self._free.append(int(taken.ctypes.data))

    @property
    def num_free(self) -> int:
        """Buffers that can be lent now."""
        return len(self._free)


def _aligned(num_bytes: int) -> Bytes:
    raw = np.zeros(num_bytes + ALIGNMENT, np.uint8)
    first = -int(raw.ctypes.data) % ALIGNMENT
    return raw[first : first + num_bytes]
