"""Keep of a kineto trace what the records need, as columns."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._pairs import number
from argus.collectors.records.kernel_names import is_comm

Ints = NDArray[np.int64]

_KERNEL = frozenset({"kernel"})
_COPY = frozenset({"gpu_memcpy", "memcpy", "gpu_memset", "memset"})
_RUNTIME = frozenset(
    {
        "cuda_runtime",
        "runtime",
        "cuda_driver",
        "hip_runtime",
        "hip_driver",
        "xpu_runtime",
        "xpu_driver",
        "privateuse1_runtime",
        "privateuse1_driver",
    }
)
OPERATORS = frozenset({"cpu_op", "operator"})
_MARK = frozenset({"user_annotation"})
_IS_COMM_SPAN = re.compile(r"(nccl|gloo|mpi|ucc|xccl):|record_param_comms|c10d::")
_OLD_MARK = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#")
_STANDS_STILL = re.compile("Synchronize|Memcpy")
AUTOGRAD = "autograd::engine::evaluate_function"
_MAX_US = 4.6e15
"""Larger times do not fit into nanoseconds of 64 bits with room for arithmetic."""

MAX_ROWS = 20_000_000
MAX_SPANS = 1_000_000
MAX_NAMES = 100_000
"""Of each sort so many are kept: ten times what a trace of two gigabytes holds, and no more than 4 GB in memory."""

_IN_NS = 1e17
"""Microseconds since 1970 reach this in the year 5138: a file that begins here counts nanoseconds."""

_KEPT_ARGS = frozenset(
    {
        "Collective name",
        "In msg nelems",
        "dtype",
        "Process Group Name",
        "Process Group Description",
        "Process Group Ranks",
        "Global rank start",
        "Global rank stride",
        "Group size",
        "Src Rank",
        "Dst Rank",
        "Seq",
        "Input Dims",
        "Input type",
    }
)
"""What is read of a communication's arguments; traces of gigabytes repeat the others millions of times."""

MANY = "one of very many names"

EMPTY: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Something a CPU thread was inside of."""

    start_ns: int
    end_ns: int
    tid: object
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


class Table:
    """Rows of whole numbers below each other, eight bytes each.

    >>> table = Table(2, limit=1)
    >>> table.append((1, 5)), table.append((2, 6)), table.num_lost, table.rows().tolist()
    (True, False, 1, [[1, 5]])
    """

    def __init__(self, width: int, *, limit: int = MAX_ROWS) -> None:
        self._cells = array("q")
        self._width = width
        self._limit = limit * width
        self.num_lost = 0

    def __len__(self) -> int:
        return len(self._cells) // self._width

    def append(self, row: tuple[int, ...]) -> bool:
        """Add a row, if there is room; no longer possible once `rows` was asked for."""
        if len(self._cells) >= self._limit:
            self.num_lost += 1
            return False
        self._cells.extend(row)
        return True

    def rows(self) -> Ints:
        """All rows without a copy. (row, width)"""
        cells = np.frombuffer(self._cells, np.int64) if self._cells else np.empty(0, np.int64)
        return cells.reshape(-1, self._width)


@dataclass(kw_only=True)
class Columns:
    """Filled event by event; times are ns of the trace's own origin.

    `kernels` rows: start, duration, stream, correlation, name index, kind (0 compute, 1 comm, 2 copy).
    `launches` rows: correlation, start, thread. `blocked` rows: start, end. `ops` rows: start, end,
    thread, kind (0 plain, 1 autograd). Threads are small numbers, see `thread`. `pid` is the process that ran
    the operators, 0 while none has said it, -1 if several did.
    """

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[object, int] = field(default_factory=dict)
    kernels: Table = field(default_factory=lambda: Table(6))
    comm_args: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    launches: Table = field(default_factory=lambda: Table(3))
    blocked: Table = field(default_factory=lambda: Table(2))
    ops: Table = field(default_factory=lambda: Table(4))
    marks: list[Span] = field(default_factory=list)
    comms: list[Span] = field(default_factory=list)
    device: int = -1
    pid: int = 0
    num_bad: int = 0
    num_events: int = 0
    num_spans_lost: int = 0
    is_in_ns: bool | None = None

    def thread(self, tid: object) -> int:
        """The small number of a thread."""
        key = str(tid)
        return self.threads.setdefault(key, len(self.threads)) if len(self.threads) < MAX_NAMES else 0

    def process(self, pid: object) -> None:
        """Note that this process ran an operator."""
        said = whole(pid)
        if said != self.pid and 0 < said < 1 << 31:
            self.pid = said if self.pid == 0 else -1

    def kernel(self, row: tuple[int, int, int, int], name: str, *, kind: int) -> int:
        """Add a kernel by start, duration, stream and correlation; its index, -1 if there is no room."""
        known = name if name in self.names or len(self.names) < MAX_NAMES else MANY
        index = self.names.setdefault(known, len(self.names))
        return len(self.kernels) - 1 if self.kernels.append((*row, index, kind)) else -1

    def span(self, span: Span, *, is_comm: bool) -> None:
        """Add what a thread was inside of."""
        spans = self.comms if is_comm else self.marks
        if len(spans) < MAX_SPANS:
            spans.append(span)
        else:
            self.num_spans_lost += 1

    @property
    def num_lost(self) -> int:
        """Events that found no room."""
        tables = (self.kernels, self.launches, self.blocked, self.ops)
        return self.num_spans_lost + sum(table.num_lost for table in tables)

    @property
    def holds_any(self) -> bool:
        """Whether any event was of a kind that is read."""
        tables = (self.ops, self.kernels, self.launches, self.blocked, self.marks, self.comms)
        return any(len(table) for table in tables) or bool(self.num_bad or self.num_lost)

    def when(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        """Start and duration of an event in ns; one without usable numbers is counted, None."""
        if self.is_in_ns is None:
            start = number(event.get("ts"))
            self.is_in_ns = start is not None and _IN_NS < start < _MAX_US * 1000
        found = times(event, is_in_ns=self.is_in_ns)
        self.num_bad += found is None
        return found


def collect(events: Iterable[Mapping[str, Any]]) -> Columns:
    """Columns of all complete events; a time that is no time is counted in `num_bad`."""
    columns = Columns()
    for event in events:
        keep(columns, event)
    return columns


def keep(columns: Columns, event: Mapping[str, Any]) -> None:
    """Add one event, if it is complete and of a kind that is read."""
    if event.get("ph") != "X":
        return
    columns.num_events += 1
    kind, name = event.get("cat"), event.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        return
    kind = kind.lower()
    if kind in OPERATORS or kind in _MARK:
        _cpu(columns, event, name, is_mark=kind in _MARK)
    elif kind in _KERNEL or kind in _COPY:
        _gpu(columns, event, name, is_copy=kind in _COPY)
    elif kind in _RUNTIME:
        _runtime(columns, event, name)


def times(event: Mapping[str, Any], *, is_in_ns: bool = False) -> tuple[int, int] | None:
    """Start and duration in ns, None if they are not usable numbers.

    Kineto writes 0 and 0 of an event whose times it does not know (pytorch#188481).
    """
    start, dur = number(event.get("ts")), number(event.get("dur", 0))
    if start is None or dur is None or start == dur == 0:
        return None
    scale = 1 if is_in_ns else 1000
    limit = _MAX_US * 1000 / scale
    if not (-limit < start < limit and 0 <= dur < limit):  # also false for NaN
        return None
    return round(start * scale), round(dur * scale)


def arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event's arguments, empty if it has none."""
    args = event.get("args")
    return args if isinstance(args, dict) else EMPTY


def comm_arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the event's arguments that say what is communicated; equal texts are kept once."""
    found = {key: value for key, value in arguments(event).items() if key in _KEPT_ARGS}
    return {key: sys.intern(value) if type(value) is str else value for key, value in found.items()}


def whole(value: object) -> int:
    """An identifier as integer, -1 if it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return -1


def _cpu(columns: Columns, event: Mapping[str, Any], name: str, *, is_mark: bool) -> None:
    when = columns.when(event)
    if when is None:
        return
    start, dur = when
    is_comm = _IS_COMM_SPAN.match(name) is not None
    if is_comm or is_mark or _OLD_MARK.match(name):
        args = comm_arguments(event) if is_comm else EMPTY
        span = Span(start_ns=start, end_ns=start + dur, tid=event.get("tid"), name=name[:200], args=args)
        columns.span(span, is_comm=is_comm)
    if not is_mark:
        columns.process(event.get("pid"))
        kind = 1 if name.startswith(AUTOGRAD) else 0
        columns.ops.append((start, start + dur, columns.thread(event.get("tid")), kind))


def _gpu(columns: Columns, event: Mapping[str, Any], name: str, *, is_copy: bool) -> None:
    when = columns.when(event)
    if when is None:
        return
    args = arguments(event)
    kind = 2 if is_copy else int(is_comm(name))
    stream = whole(args.get("stream", event.get("tid")))
    if not is_copy and columns.device < 0:
        columns.device = whole(args.get("device", event.get("pid")))
    index = columns.kernel((*when, stream, whole(args.get("correlation"))), name, kind=kind)
    if kind == 1 and index >= 0:
        columns.comm_args[index] = comm_arguments(event)


def _runtime(columns: Columns, event: Mapping[str, Any], name: str) -> None:
    when = columns.when(event)
    if when is None:
        return
    start, dur = when
    correlation = whole(arguments(event).get("correlation"))
    if correlation >= 0:
        columns.launches.append((correlation, start, columns.thread(event.get("tid"))))
    if _STANDS_STILL.search(name):
        columns.blocked.append((start, start + dur))
