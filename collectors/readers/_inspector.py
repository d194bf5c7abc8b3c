"""The calls of NCCL Inspector's lines as columns, and where their pattern repeats."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._comms import operation
from argus.collectors.readers._groups import count
from argus.collectors.records.layout import MAX_WORLD

Ints = NDArray[np.int64]

MAX_CALLS = 5_000_000
MAX_COMMS = 4096
MAX_US = 4.6e15

OPS_A_SEQ = 16
"""NCCL counts the calls of a communicator by function: the number of a call is its count and its function."""

LIKE = 0.9
MIN_PAIRS = 8
LONGEST = 2048
LOOKED_AT = 20_000
"""A pattern repeats if nine in ten calls equal the one a period later; two thousand calls a step are many."""


@dataclass(frozen=True, kw_only=True)
class Comm:
    """One communicator of the process: `rank` is the process' own in it."""

    id: str
    rank: int
    size: int


@dataclass(kw_only=True)
class Calls:
    """Rows of `cells`: communicator, op, seq, bytes, entry, end; times in ns."""

    comms: dict[str, Comm] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    cells: array[int] = field(default_factory=lambda: array("q"))
    host: str = ""
    pid: int = 0
    num_bad: int = 0
    num_p2p: int = 0
    num_untimed: int = 0

    def __len__(self) -> int:
        return len(self.cells) // 6

    def take(self, raw: Mapping[str, Any]) -> None:
        """Add a line's call; what is none is counted."""
        self.num_bad += not self._call(raw)

    def _call(self, raw: Mapping[str, Any]) -> bool:
        head, meta = _object(raw, "header") or raw, _object(raw, "metadata") or raw
        perf = _object(raw, "coll_perf")
        comm = _comm(head)
        if comm is None:
            return False
        self.host = self.host or str(meta.get("hostname", ""))[:256]
        self.pid = self.pid or count(meta.get("pid")) or 0
        if not perf:
            self.num_p2p += bool(_object(raw, "p2p_perf"))
            return bool(_object(raw, "p2p_perf"))
        op, seq, times = operation(str(perf.get("coll", ""))), count(perf.get("coll_sn")), _times(perf, meta)
        if not op or seq is None or not 0 <= seq < 1 << 52 or times is None:
            return False
        if len(self) < MAX_CALLS and (comm.id in self.comms or len(self.comms) < MAX_COMMS):
            self.comms.setdefault(comm.id, comm)
            number = self.numbers.setdefault(comm.id, len(self.numbers))
            kind = self.ops.setdefault(op, len(self.ops))
            size = min(max(count(perf.get("coll_msg_size_bytes")) or 0, 0), 1 << 60)
            self.cells.extend((number, kind, seq, size, *times[:2]))
            self.num_untimed += not times[2]
        return True

    def rows(self) -> Ints:
        """All calls in order of entry. (call, 6)"""
        rows = np.frombuffer(self.cells, np.int64).reshape(-1, 6)
        return rows[np.argsort(rows[:, 4], kind="stable")]


def calls_of(lines: Iterable[str]) -> list[Calls]:
    """The calls of each process that the lines tell of, in the order of their first ones; the first holds all bad lines."""
    found: dict[tuple[str, int], Calls] = {}
    num_bad = 0
    for line in lines:
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict):
            num_bad += 1
            continue
        meta = _object(raw, "metadata") or raw
        process = str(meta.get("hostname", ""))[:256], count(meta.get("pid")) or 0
        if process not in found and len(found) >= MAX_WORLD:
            num_bad += 1
            continue
        found.setdefault(process, Calls()).take(raw)
    held = [calls for calls in found.values() if len(calls)]
    if held:
        held[0].num_bad += num_bad + sum(calls.num_bad for calls in found.values() if not len(calls))
    return held


def _object(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def _comm(head: Mapping[str, Any]) -> Comm | None:
    rank, size = count(head.get("rank")), count(head.get("n_ranks"))
    if rank is None or size is None or not 0 <= rank < size <= MAX_WORLD:
        return None
    return Comm(id=str(head.get("id", ""))[:80], rank=rank, size=size)


def _times(perf: Mapping[str, Any], meta: Mapping[str, Any]) -> tuple[int, int, bool] | None:
    """Entry and end in ns, and whether they are the kernel's own: else the call ended before it was written."""
    took, written = perf.get("coll_exec_time_us"), meta.get("dump_timestamp_us")
    events = _object(perf, "event_trace_ts").get("kernel_events")
    kernels = [one for one in events if isinstance(one, dict)] if isinstance(events, list) else []
    starts = [time for one in kernels if (time := _time(one.get("kernel_start_ts"))) is not None]
    ends = [time for one in kernels if (time := _time(one.get("kernel_stop_ts"))) is not None]
    if kernels and len(starts) == len(ends) == len(kernels) and max(ends) >= min(starts) > 0:
        return round(min(starts) * 1000), round(max(ends) * 1000), True
    took_us, written_us = _time(took), _time(written)
    if took_us is None or written_us is None:
        return None
    return round((written_us - took_us) * 1000), round(written_us * 1000), False


def _time(value: object) -> float | None:
    """Microseconds, None for what cannot be any."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < MAX_US:
        return None
    return value


def period_of(rows: Ints) -> tuple[int, int]:
    """(op, calls of it a step) after which the calls of a communicator repeat; (0, 0) if they do not.

    >>> period_of(np.array([[0, 1, n, 8 if n % 3 else 64, n, n] for n in range(60)]))
    (1, 3)
    """
    op = Counter(rows[:, 1].tolist()).most_common(1)[0][0]
    mine = rows[rows[:, 1] == op]
    first = int(mine[:, 2].min())
    mine = mine[mine[:, 2] - first < LOOKED_AT]
    sizes = np.full(int(mine[:, 2].max()) - first + 1, -1, np.int64)
    sizes[mine[:, 2] - first] = mine[:, 3]
    for period in range(1, min(LONGEST, len(sizes) - 1) + 1):
        here, later = sizes[:-period], sizes[period:]
        both = (here >= 0) & (later >= 0)
        if both.sum() >= MIN_PAIRS and (here[both] == later[both]).mean() >= LIKE:
            return int(op), period
    return 0, 0
