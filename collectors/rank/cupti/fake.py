"""A CUPTI for tests: buffers filled as libcupti fills them, from the dtypes that cupti-python ships."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from argus.collectors.rank.cupti.api import Completed, Refused, Requested
from argus.collectors.rank.cupti.decode import Bytes
from argus.collectors.rank.cupti.kinds import CONCURRENT_KERNEL, MEMCPY, RUNTIME
from argus.collectors.rank.cupti.pool import Pool

_COMMON = [("kind", "<i4"), ("pad", "<u4"), ("start", "<u8"), ("end", "<u8")]
_IDS = [("stream_id", "<u4"), ("correlation_id", "<u4"), ("graph_id", "<u4")]
STAND_IN: Mapping[int, np.dtype[Any]] = {
    CONCURRENT_KERNEL: np.dtype([*_COMMON, *_IDS, ("pad2", "<u4"), ("name", "<i8")]),
    MEMCPY: np.dtype([*_COMMON, *_IDS, ("copy_kind", "u1"), ("pad2", "V3")]),
    RUNTIME: np.dtype([*_COMMON, ("correlation_id", "<u4"), ("pad2", "<u4")]),
}
"""Records of our own making, for tests where cupti-python is not installed."""

STAND_IN_NAMES = {CONCURRENT_KERNEL: "kernel1", MEMCPY: "memcpy1", RUNTIME: "api"}


def stand_in_module(cupti: Callable[[], FakeCupti]) -> object:
    """What `layouts.candidates` reads of cupti-python, for `STAND_IN`; `cupti` reads the records."""
    module = SimpleNamespace()
    for kind, name in STAND_IN_NAMES.items():
        size = STAND_IN[kind].itemsize

        def from_ptr(ptr: int, readonly: bool = True, *, size: int = size) -> object:
            return cupti().read_object(ctypes.string_at(ptr, size))

        setattr(module, f"activity_{name}_dtype", STAND_IN[kind])
        setattr(module, f"Activity{name.capitalize()}", SimpleNamespace(from_ptr=from_ptr))
    return module


class Texts:
    """Strings at addresses that stay valid, as CUPTI's kernel names do."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def address(self, text: str) -> int:
        """Where `text` lies."""
        if text not in self._kept:
            self._kept[text] = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._kept[text])

    def read(self, pointer: int) -> str:
        """The text at an address; empty for one that is not ours."""
        for text, kept in self._kept.items():
            if ctypes.addressof(kept) == pointer:
                return text
        return ""


def record(dtype: np.dtype[Any], kind: int, **columns: int) -> bytes:
    """One record; columns the version does not have are left out."""
    row = np.zeros(1, dtype)
    row["kind"] = kind
    for name, value in columns.items():
        if name in (dtype.names or ()):
            row[name] = value
    return row.tobytes()


def buffer_of(parts: Sequence[bytes]) -> Bytes:
    """The parts one after the other, at an address that is a multiple of 8."""
    data = b"".join(parts)
    out = np.zeros(len(data) // 8 + 1, np.uint64).view(np.uint8)[: len(data)]
    out[:] = np.frombuffer(data, np.uint8)
    return out


@dataclass(kw_only=True)
class FakeGpu:
    """Launches and runs kernels on a clock of its own, one stream, one after the other."""

    dtypes: Mapping[int, np.dtype[Any]]
    texts: Texts = field(default_factory=Texts)
    free_at_ns: int = 0
    correlation: int = 0
    records: list[tuple[int, int, bytes]] = field(default_factory=list)  # kind, when complete, bytes

    def launch(
        self, name: str, *, at_ns: int, dur_ns: int, stream: int = 7, graph: int = 0, delay_ns: int = 3000
    ) -> None:
        """A kernel the host launches at `at_ns`."""
        self.correlation += 1
        self._api(at_ns)
        start = max(at_ns + delay_ns, self.free_at_ns)
        self.free_at_ns = start + dur_ns
        row = record(
            self.dtypes[CONCURRENT_KERNEL],
            CONCURRENT_KERNEL,
            start=start,
            end=start + dur_ns,
            stream_id=stream,
            correlation_id=self.correlation,
            graph_id=graph,
            name=self.texts.address(name),
        )
        self.records.append((CONCURRENT_KERNEL, self.free_at_ns, row))

    def copy(self, *, at_ns: int, dur_ns: int, copy_kind: int = 1) -> None:
        """A copy from the host."""
        self.correlation += 1
        self._api(at_ns)
        ids = {"correlation_id": self.correlation, "stream_id": 7}
        times = {"start": at_ns + 2000, "end": at_ns + 2000 + dur_ns}
        row = record(self.dtypes[MEMCPY], MEMCPY, copy_kind=copy_kind, **ids, **times)
        self.records.append((MEMCPY, times["end"], row))

    def _api(self, at_ns: int) -> None:
        ids = {"correlation_id": self.correlation}
        row = record(self.dtypes[RUNTIME], RUNTIME, start=at_ns, end=at_ns + 1500, **ids)
        self.records.append((RUNTIME, at_ns + 1500, row))


class FakeCupti:
    """`api.Api` and `raw.Library` at once: what is on, who is registered, what was handed over."""

    def __init__(self, gpu: FakeGpu, *, now_ns: Callable[[], int]) -> None:
        self.gpu = gpu
        self.clock_ns = now_ns
        self.is_enabled = False
        self.rival = False
        self.refuses: str = ""
        self.calls: list[str] = []
        self.dropped = 0
        self._sink: Callable[[list[bytes]], None] | None = None

    def enable(self) -> None:
        self._answer("enable")
        self.is_enabled = True

    def disable(self) -> None:
        self._answer("disable")
        self.is_enabled = False

    def flush(self, *, is_forced: bool) -> None:
        """Hand over what the GPU has finished; forced, all that was launched."""
        self._answer("flush")
        now = self.clock_ns()
        done = [row for row in self.gpu.records if is_forced or row[1] <= now]
        self.gpu.records = [] if is_forced else [row for row in self.gpu.records if row[1] > now]
        if done and self._sink is not None:
            self._sink([row for _, _, row in done])

    def now_ns(self) -> int:
        self._answer("now")
        return self.clock_ns()

    def num_dropped(self) -> int:
        dropped, self.dropped = self.dropped, 0
        return dropped

    def has_rival(self) -> bool:
        self._answer("rival")
        return self.rival

    def displace(self) -> None:
        """Another client registers its own callbacks."""
        self._sink = None

    def register(self, requested: Requested | Pool, completed: Completed | None = None) -> None:
        """As `raw.Library` with a pool, as `api.Api` with two callbacks."""
        self._answer("register")
        if isinstance(requested, Pool):
            pool = requested
            self._sink = lambda rows: self._fill(pool, rows)
        elif completed is not None:
            objects = completed
            self._sink = lambda rows: objects([self.read_object(row) for row in rows])

    def _fill(self, pool: Pool, rows: list[bytes]) -> None:
        while rows:
            address = pool.lend()
            if not address:
                self.dropped += len(rows)
                return
            used = 0
            while rows and used + len(rows[0]) <= pool.num_bytes:
                row = rows.pop(0)
                ctypes.memmove(address + used, row, len(row))
                used += len(row)
            pool.give_back(address, used)

    def read_object(self, row: bytes) -> object:
        """A record object of our own with the record's columns as attributes."""
        kind = int(np.frombuffer(row, "<i4", 1)[0])
        dtype = self.gpu.dtypes[kind]
        values = np.frombuffer(row, dtype)[0]
        columns = {name: values[name] for name in dtype.names or () if name != "name"}
        if "name" in (dtype.names or ()):
            columns["name"] = self.gpu.texts.read(int(values["name"]))
        return FakeRecord(columns)

    def hops(self, buffer: Bytes) -> Sequence[int]:
        """Offsets of the records, by the dtypes the buffer was made of."""
        at, offsets = 0, []
        while at < len(buffer):
            kind = int(buffer[at : at + 4].view("<i4")[0])
            offsets.append(at)
            at += self.gpu.dtypes[kind].itemsize
        return offsets

    def read_name(self, pointer: int) -> str:
        return self.gpu.texts.read(pointer)

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.refuses == call:
            raise Refused(f"the fake refuses {call}")


class FakeRecord:
    """Columns as attributes."""

    def __init__(self, columns: Mapping[str, object]) -> None:
        self.__dict__.update(columns)
