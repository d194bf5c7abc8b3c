"""The calls of NCCL Inspector's lines as columns, and where their pattern repeats."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    """Rows of `cells`: communicator, op, seq, bytes, entry, end; times in ns. Of `num_mixed` more no rank is told."""

    comms: dict[str, Comm] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    cells: array[int] = field(default_factory=lambda: array("q"))
    host: str = ""
    pid: int = 0
    num_bad: int = 0
    num_p2p: int = 0
    num_untimed: int = 0
    num_mixed: int = 0

    def __len__(self) -> int:
        return len(self.cells) // 6

    def add(self, other: Calls) -> None:
        """Take in calls of other communicators of the process, which share its numbers."""
        self.comms |= other.comms
        self.cells.extend(other.cells)
        self.num_untimed += other.num_untimed

    def rows(self) -> Ints:
        """All calls in order of entry. (call, 6)"""
        rows = np.frombuffer(self.cells, np.int64).reshape(-1, 6)
        return rows[np.argsort(rows[:, 4], kind="stable")]


class _Process:
    """The calls of one process by communicator and rank in it."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int], Calls] = {}
        self._whole = Calls()
        self._num_calls = 0

    def take(self, raw: Mapping[str, Any]) -> None:
        """Add a line's call; what is none is counted."""
        self._whole.num_bad += not self._call(raw)

    def ranks(self) -> list[Calls]:
        """The calls of each rank that the process drives; the first holds what was counted.

        Communicators number their members each on its own: of a process of several ranks only those of all ranks of the
        job tell whose call it is.
        """
        is_one = len({comm for comm, _ in self._parts}) == len(self._parts)
        sizes = {key: calls.comms[key[0]].size for key, calls in self._parts.items()}
        largest = max(sizes.values(), default=0)
        by_rank: dict[int, Calls] = {}
        for key, calls in self._parts.items():
            if is_one or sizes[key] == largest:
                by_rank.setdefault(0 if is_one else key[1], self._blank()).add(calls)
            else:
                self._whole.num_mixed += len(calls)
        first, *others = [calls for _, calls in sorted(by_rank.items())] or [self._blank()]
        whole = self._whole
        counted = replace(first, num_bad=whole.num_bad, num_p2p=whole.num_p2p, num_mixed=whole.num_mixed)
        return [counted, *others]

    def _blank(self) -> Calls:
        whole = self._whole
        return Calls(numbers=whole.numbers, ops=whole.ops, host=whole.host, pid=whole.pid)

    def _call(self, raw: Mapping[str, Any]) -> bool:
        head, meta = _object(raw, "header") or raw, _object(raw, "metadata") or raw
        perf, whole = _object(raw, "coll_perf"), self._whole
        comm = _comm(head)
        if comm is None:
            return False
        whole.host = whole.host or str(meta.get("hostname", ""))[:256]
        whole.pid = whole.pid or count(meta.get("pid")) or 0
        if not perf:
            whole.num_p2p += bool(_object(raw, "p2p_perf"))
            return bool(_object(raw, "p2p_perf"))
        op, seq, times = operation(str(perf.get("coll", ""))), count(perf.get("coll_sn")), _times(perf, meta)
        if not op or seq is None or not 0 <= seq < 1 << 52 or times is None:
            return False
        key = comm.id, comm.rank
        if self._num_calls < MAX_CALLS and (key in self._parts or len(self._parts) < MAX_COMMS):
            self._num_calls += 1
            part = self._parts.setdefault(key, Calls(comms={comm.id: comm}))
            number = whole.numbers.setdefault(comm.id, len(whole.numbers))
            kind = whole.ops.setdefault(op, len(whole.ops))
            size = min(max(count(perf.get("coll_msg_size_bytes")) or 0, 0), 1 << 60)
            part.cells.extend((number, kind, seq, size, *times[:2]))
            part.num_untimed += not times[2]
        return True


def calls_of(lines: Iterable[str]) -> list[Calls]:
    """The calls of each rank of each process that the lines tell of, in the order of the processes' first ones; the first
    holds all bad lines."""
    found: dict[tuple[str, int], _Process] = {}
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
        found.setdefault(process, _Process()).take(raw)
    ranks = [calls for process in found.values() for calls in process.ranks()]
    held = [calls for calls in ranks if len(calls)]
    if held:
        held[0].num_bad += num_bad + sum(calls.num_bad for calls in ranks if not len(calls))
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
