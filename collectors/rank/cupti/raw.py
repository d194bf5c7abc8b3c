"""The raw way: libcupti's own callbacks by ctypes, whole buffers without an object per record."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np

from argus.collectors.rank.cupti.api import Refused, Unavailable
from argus.collectors.rank.cupti.decode import Bytes, Decoded, decode
from argus.collectors.rank.cupti.kinds import API_KINDS, WORK_KINDS
from argus.collectors.rank.cupti.layouts import candidates, learn
from argus.collectors.rank.cupti.pool import Pool

ZEROED_OUT_BUFFER = 5  # CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: we zero, not the training thread
SUCCESS = 0
MAPS = FilePath("/proc/self/maps")

_Requested = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_Completed = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class Library(Protocol):
    """libcupti, or `fake.FakeLibrary`."""

    def register(self, pool: Pool) -> None:
        """Lend and take back buffers of `pool` from now on. Raises Refused."""

    def hops(self, buffer: Bytes) -> Sequence[int]:
        """Offsets of the buffer's records as libcupti walks them."""

    def read_name(self, pointer: int) -> str:
        """The text at an address CUPTI gave."""


class RawPath:
    """Buffers of a pool, decoded by layouts that are verified the first time a kind appears."""

    name = "raw"

    def __init__(self, library: Library, *, module: object, pool: Pool | None = None) -> None:
        self._library = library
        self._known = candidates(module)
        self._layouts: dict[int, np.dtype[Any]] = {}
        self.pool = pool if pool is not None else Pool()
        self._num_declined = 0

    def register(self) -> None:
        """Make CUPTI call us. Raises Refused."""
        self._library.register(self.pool)

    def take(self) -> Decoded | None:
        """The oldest buffer, decoded. Raises LayoutError where libcupti and cupti-python disagree."""
        buffer = self.pool.take()
        if buffer is None:
            return None
        try:
            return self._decode(buffer)
        finally:
            self.pool.recycle(buffer)

    def _decode(self, buffer: Bytes) -> Decoded:
        decoded = decode(buffer, self._layouts, read_name=self._library.read_name)
        while decoded.unknown_kind in WORK_KINDS | API_KINDS:
            self._learn(buffer, decoded.unknown_kind)
            decoded = decode(buffer, self._layouts, read_name=self._library.read_name)
        return decoded

    def _learn(self, buffer: Bytes, kind: int) -> None:
        self._layouts[kind] = learn(
            buffer, kind, known=self._known, hops=self._library.hops, read_name=self._library.read_name
        )

    def take_lost(self) -> int:
        """Buffers CUPTI was refused since the last call; the records are counted by CUPTI."""
        lost, self._num_declined = self.pool.num_declined - self._num_declined, self.pool.num_declined
        return lost

    @property
    def verified(self) -> dict[int, int]:
        """Record size of each kind that was verified."""
        return {kind: dtype.itemsize for kind, dtype in self._layouts.items()}


class LibCupti:
    """A libcupti by its path: the same one that cupti-python has loaded."""

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._next = self._lib.cuptiActivityGetNextRecord
        self._next.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        self._callbacks: tuple[object, object] | None = None

    def register(self, pool: Pool) -> None:
        """Register the callbacks; they live as long as the process, since CUPTI may keep them."""
        if self._callbacks is None:
            self._callbacks = _callbacks(pool)
            _KEPT.append(self._callbacks)
        flag, size = ctypes.c_uint8(1), ctypes.c_size_t(1)
        self._check(
            "cuptiActivitySetAttribute",
            self._lib.cuptiActivitySetAttribute(ZEROED_OUT_BUFFER, ctypes.byref(size), ctypes.byref(flag)),
        )
        self._check(
            "cuptiActivityRegisterCallbacks", self._lib.cuptiActivityRegisterCallbacks(*self._callbacks)
        )

    def _check(self, call: str, status: int) -> None:
        if status != SUCCESS:
            raise Refused(f"{call} answered {status}")

    def hops(self, buffer: Bytes) -> Sequence[int]:
        """Offsets of the buffer's records as libcupti walks them."""
        base, record = int(buffer.ctypes.data), ctypes.c_void_p(None)
        offsets = []
        while self._next(base, len(buffer), ctypes.byref(record)) == SUCCESS and record.value:
            offsets.append(record.value - base)
        return offsets

    def read_name(self, pointer: int) -> str:
        """The text at an address CUPTI gave; CUPTI keeps kernel names as long as their module."""
        return ctypes.string_at(pointer).decode("utf-8", "replace") if pointer else ""


_KEPT: list[tuple[object, object]] = []
"""Callbacks CUPTI has been given in this process; a freed one would be a jump into nowhere."""


def _callbacks(pool: Pool) -> tuple[object, object]:
    def requested(buffer: Any, size: Any, max_records: Any) -> None:
        address = pool.lend()
        buffer[0] = address or None
        size[0] = pool.num_bytes if address else 0
        max_records[0] = 0

    def completed(_context: int, _stream: int, buffer: int, _size: int, valid: int) -> None:
        if buffer:
            pool.give_back(buffer, valid)

    return _Requested(requested), _Completed(completed)


def loaded_library() -> str:
    """Path of the one libcupti in this process. Raises Unavailable if there is none or more than one."""
    paths = loaded_libraries()
    if len(paths) != 1:
        raise Unavailable(f"{len(paths)} libraries called libcupti are loaded")
    return paths[0]


def loaded_libraries(maps: FilePath = MAPS) -> list[str]:
    """Paths of every libcupti mapped into this process."""
    try:
        text = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return sorted(set(re.findall(r"(/\S*/libcupti\.so[.\d]*)", text)))
