"""Collectives of one rank: each transfer once, named by the call that launched it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._columns import EMPTY, Columns, Span, whole
from argus.collectors.readers._groups import count, default_name, of_call, world_group
from argus.collectors.records.layout import GroupInfo

Ints = NDArray[np.int64]

_OPS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
    ("send", "send"),
    ("recv", "recv"),
)
_P2P = frozenset({"send", "recv"})
_SIZES = {
    "float": 4,
    "int": 4,
    "double": 8,
    "long": 8,
    "longint": 8,
    "half": 2,
    "bfloat": 2,
    "short": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
    "unsignedchar": 1,
    "signedchar": 1,
}
"""Bytes by type name, letters only, as the profiler writes them."""

MAX_MESSAGE = 1 << 60
"""Bytes of a call that fit into a record: a trace may say any number."""

_BACKENDS = ("gloo:", "mpi:", "ucc:", "xccl:")
"""Backends whose own span is the transfer; NCCL's span is only the launch."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One collective of this rank; `issued_ns` is when the CPU launched it."""

    op: str
    group: str
    peer: int
    bytes: int
    start_ns: int
    end_ns: int
    issued_ns: int
    seq: int


@dataclass(frozen=True, kw_only=True)
class Calls:
    """All collectives in order of entry, the groups they used, and what could not be told."""

    calls: tuple[Call, ...]
    groups: Mapping[str, GroupInfo]
    is_seq_known: bool
    num_unnamed: int  # transfers whose group is unknown
    num_unseen: int  # launches without their transfer


@dataclass(kw_only=True)
class _Open:
    """A transfer being put together from its kernels and spans."""

    start: int
    end: int
    issued: int
    native: str
    args: dict[str, Any] = field(default_factory=dict)


def find_calls(columns: Columns, *, launched: Ints, groups: Mapping[str, GroupInfo], world: int) -> Calls:
    """Collectives of the trace; `launched` is each kernel row's launch time."""
    transfers = _kernel_transfers(columns, launched)
    transfers += [
        _Open(start=s.start_ns, end=s.end_ns, issued=s.start_ns, native=s.name, args=dict(s.args))
        for s in columns.comms
        if s.name.startswith(_BACKENDS) and operation(s.name)
    ]
    transfers.sort(key=lambda one: (one.start, one.end))
    known = dict(groups)
    for one in transfers:
        group = of_call(one.args, world)
        if group is not None and len(known) < 4096:
            known.setdefault(group.name, group)
    fallback = default_name(known, world)
    if not known:
        known[world_group(world).name] = world_group(world)
    calls = [_call(one, known, fallback) for one in transfers]
    named = [call for call in calls if call is not None]
    launches = sum(1 for s in columns.comms if s.name.startswith("nccl:") and operation(s.name))
    return Calls(
        calls=_numbered(named),
        groups=known,
        is_seq_known=bool(named) and all(call.seq >= 0 for call in named),
        num_unnamed=len(calls) - len(named),
        num_unseen=launches if not transfers else 0,
    )


def operation(native: str) -> str:
    """Canonical operation behind a backend's or a kernel's name, "" if it is none.

    >>> operation("nccl:_all_gather_base"), operation("allreduce_coalesced"), operation("wait")
    ('all_gather', 'all_reduce', '')
    """
    plain = re.sub("[^a-z]", "", native.lower().rpartition(":")[2])
    return next((op for prefix, op in _OPS if plain.startswith(prefix)), "")


def _kernel_transfers(columns: Columns, launched: Ints) -> list[_Open]:
    """One transfer per launching call: its kernels joined, its name and arguments from its spans."""
    spans = _SpansByThread(columns)
    kernels, natives = columns.kernels.rows(), list(columns.names)
    launches = columns.launches.rows()
    launches = launches[np.isin(launches[:, 0], kernels[list(columns.comm_args), 3])]
    thread_of = dict(zip(launches[:, 0].tolist(), launches[:, 2].tolist(), strict=True))
    open_: dict[object, _Open] = {}
    for index, args in columns.comm_args.items():
        start, dur, _, correlation, name, _ = kernels[index].tolist()
        issued = int(launched[index])
        around = spans.around(thread_of.get(correlation, -1), issued)
        key: object = id(around[0]) if around else index
        one = open_.get(key)
        if one is None:
            native = next((s.name for s in around if ":" in s.name and operation(s.name)), "")
            one = _Open(
                start=start, end=start + dur, issued=issued, native=native or _of_kernel(natives[name])
            )
            for span in reversed(around):
                one.args.update({k: v for k, v in span.args.items() if k not in one.args})
            open_[key] = one
        one.start, one.end = min(one.start, start), max(one.end, start + dur)
        one.args.update(args)
    return list(open_.values())


def _of_kernel(native: str) -> str:
    """Operation in a kernel's own name; SendRecv alone does not tell all-to-all from send."""
    match = re.search(r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)", native)
    return match.group(1) if match else ""


class _SpansByThread:
    """Which communication spans of a thread are around a moment, outermost first."""

    def __init__(self, columns: Columns) -> None:
        self._spans: dict[int, list[Span]] = defaultdict(list)
        for span in columns.comms:
            if not span.name.startswith("c10d::") and span.end_ns > span.start_ns:
                self._spans[columns.thread(span.tid)].append(span)
        for spans in self._spans.values():
            spans.sort(key=lambda s: (s.start_ns, -s.end_ns))
        self._starts = {tid: [s.start_ns for s in spans] for tid, spans in self._spans.items()}

    def around(self, thread: int, moment: int) -> list[Span]:
        if thread not in self._spans:
            return []
        last = bisect_right(self._starts[thread], moment)
        near = self._spans[thread][max(0, last - 8) : last]
        return [span for span in near if span.end_ns >= moment]


def _call(one: _Open, groups: Mapping[str, GroupInfo], fallback: str | None) -> Call | None:
    op = operation(str(one.args.get("Collective name", ""))) or operation(one.native)
    stated = one.args.get("Process Group Name")
    group = groups.get(str(stated)) if stated not in (None, "") else groups.get(fallback or "")
    if not op or group is None:
        return None
    return Call(
        op=op,
        group=group.name,
        peer=_peer(one, op, group),
        bytes=_bytes(one.args),
        start_ns=one.start,
        end_ns=one.end,
        issued_ns=one.issued,
        seq=whole(one.args.get("Seq", -1)),
    )


def _peer(one: _Open, op: str, group: GroupInfo) -> int:
    """Global rank of the other end of a point-to-point call, -1 if unknown or none."""
    if op not in _P2P:
        return -1
    index = count(one.args.get("Dst Rank" if op == "send" else "Src Rank"))
    if index is None:
        match = re.search(r"(?:->|<-)\s*(\d{1,7})", one.native)
        index = int(match.group(1)) if match else None
    return group.ranks[index] if index is not None and 0 <= index < len(group.ranks) else -1


def _bytes(args: Mapping[str, Any]) -> int:
    """Bytes this rank put in, 0 if the trace does not say."""
    nelems = count(args.get("In msg nelems"))
    if nelems is not None:
        return min(max(0, nelems) * _size(args.get("dtype")), MAX_MESSAGE)
    dims, types = args.get("Input Dims", EMPTY), args.get("Input type", EMPTY)
    if not isinstance(dims, list) or not isinstance(types, list):
        return 0
    total = 0
    for shape, kind in zip(dims, types, strict=False):
        if isinstance(shape, list) and shape and all(isinstance(n, int) and 0 <= n < 1 << 40 for n in shape):
            total += int(np.prod(shape, dtype=np.float64)) * _size(kind)
    return min(total, MAX_MESSAGE)


def _size(kind: object) -> int:
    plain = re.sub("[^a-z]", "", str(kind).lower().replace("c10::", ""))
    return _SIZES.get(plain, 1 if plain.startswith("floate") else 0)


def _numbered(calls: list[Call]) -> tuple[Call, ...]:
    """Calls with sequence numbers counted per group, for send and recv per peer and direction."""
    if calls and all(call.seq >= 0 for call in calls):
        return tuple(calls)
    counts: dict[tuple[object, ...], int] = defaultdict(int)
    numbered = []
    for call in calls:
        key = (call.group, call.op, call.peer) if call.op in _P2P else (call.group,)
        numbered.append(replace(call, seq=counts[key]))
        counts[key] += 1
    return tuple(numbered)
