"""Calls that members of a group made differently under one number, or that have not begun on a few of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from argus.collectors.records.flight import FlightDump, PendingCall
from argus.topology.layout import Topology

ALIKE_OPS = ("all_reduce", "broadcast")
"""Operations whose tensors are of one size on all ranks."""

PAIRED_OPS = ("send", "recv")
"""Operations that are not the same on both ends."""

_SIZES = re.compile(r"\[\[[\d, \[\]]*")

SCHEDULED, STARTED = "scheduled", "started"


@dataclass(frozen=True, kw_only=True)
class UnlikeCall:
    """A call of a group that `ranks`, less than half of it, made differently or have not begun.

    No ranks are named where neither side is most of the group. `text` is a sentence without its point.
    """

    group: str
    seq: int
    ranks: tuple[int, ...]
    is_begun: bool
    text: str


def unlike_calls(dumps: Sequence[FlightDump], topology: Topology) -> tuple[UnlikeCall, ...]:
    """At most one call of each group, the first: those after it differ because of it."""
    calls: dict[str, dict[int, dict[int, PendingCall]]] = defaultdict(lambda: defaultdict(dict))
    firsts = {dump.rank: dump.pending[0] for dump in dumps if dump.pending}
    for dump in dumps:
        for call in _only_calls(dump):
            group = topology.named.get((dump.rank, call.group))
            if group is not None:
                calls[group.id][call.seq][dump.rank] = call
    found = []
    for group_id, by_seq in sorted(calls.items()):
        size = len(topology.group(group_id).ranks)
        for seq, by_rank in sorted(by_seq.items()):
            unlike = _different(by_rank, f"call {seq} of {group_id}", size=size)
            unlike = unlike or _not_begun(by_rank, f"call {seq} of {group_id}", size=size, firsts=firsts)
            if unlike is not None:
                ranks, is_begun, text = unlike
                found.append(
                    UnlikeCall(group=group_id, seq=seq, ranks=ranks, is_begun=is_begun, text=text[:300])
                )
                break
    return tuple(found)


def _only_calls(dump: FlightDump) -> Iterator[PendingCall]:
    """Collectives that the group's counters do not hold for completed, and that are alone under their number.

    Calls that were issued as one share a number, and their parts are never marked as completed.
    """
    alone: dict[tuple[str, int], list[PendingCall]] = defaultdict(list)
    for call in dump.pending:
        told = dump.groups.get(call.group)
        if call.peer < 0 and call.op not in PAIRED_OPS and (told is None or call.seq > told[1]):
            alone[call.group, call.seq].append(call)
    return (calls[0] for calls in alone.values() if len(calls) == 1)


Unlike = tuple[tuple[int, ...], bool, str]
"""Ranks, whether the call has begun on them, and the sentence."""


def _different(by_rank: Mapping[int, PendingCall], what: str, *, size: int) -> Unlike | None:
    """The ranks whose operation, or whose size of one operation, is not that of most of the group.

    A call whose size was not told is of any.
    """
    ops = {call.op for call in by_rank.values()}
    if len(ops) == 1 and not ops & set(ALIKE_OPS):
        return None
    kinds: dict[str, list[int]] = defaultdict(list)
    if len(ops) == 1:
        by_rank = {rank: call for rank, call in by_rank.items() if call.shape}
    for rank, call in sorted(by_rank.items()):
        kinds[call.op if len(ops) > 1 else _size(call.shape)].append(rank)
    if len(kinds) < 2:
        return None
    most = max(kinds.values(), key=len)
    odd = tuple(rank for rank in sorted(by_rank) if rank not in most) if 2 * len(most) > size else ()
    how = "" if len(ops) > 1 else " of different sizes or types"
    calls = [(by_rank[ranks[0]], ranks) for _, ranks in sorted(kinds.items())]
    told = [call.op if len(ops) > 1 else f"{call.op} {call.shape}" for call, _ in calls]
    sides = "; ".join(f"{kind} on {_few(ranks)}" for kind, (_, ranks) in zip(told, calls, strict=True))
    return odd, True, f"{what} differs between ranks{how}: {sides}"


def _size(shape: str) -> str:
    """Numbers of elements and types of a call's tensors: those of one number match whatever their shapes.

    >>> _size("[[4, 4], []] ['Float']"), _size("NumelIn=16")
    ("16 1 ['Float']", 'NumelIn=16')
    """
    sizes, is_list, types = shape.partition("]] ")
    if not is_list or _SIZES.fullmatch(sizes) is None:
        return shape
    tensors = [prod(int(n) for n in one.split(",") if n.strip()) for one in sizes[2:].split("], [")]
    return f"{' '.join(map(str, tensors))} {types}"


def _not_begun(
    by_rank: Mapping[int, PendingCall], what: str, *, size: int, firsts: Mapping[int, PendingCall]
) -> Unlike | None:
    """The ranks whose device has not come to the call although no call before it holds them up.

    Where starts are not recorded, all calls are said to be scheduled: that tells nothing.
    """
    begun = [rank for rank, call in sorted(by_rank.items()) if call.state == STARTED]
    late = tuple(rank for rank, call in sorted(by_rank.items()) if call.state == SCHEDULED)
    if not late or 2 * len(begun) <= size or any(firsts[rank] is not by_rank[rank] for rank in late):
        return None
    op = by_rank[late[0]].op
    return late, False, f"{what}, {op}, has not started on {_few(late)} and has on {_few(begun)}"


def _few(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:4]))
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{', …' if len(ranks) > 4 else ''}"
