"""The collective and point-to-point calls of a window: one row per call and member, as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from argus.analytics.gathered import Texts, in_columns
from argus.analytics.ordering import numbered, packed
from argus.analytics.recalled import recalled
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PAIRED = ("send", "recv")
"""Operations of two ranks: a call is one of a pair, not of the group."""


_TIMES = ("entry_ns", "end_ns", "blocked_ns", "cpu_ns")
_COLUMNS: Mapping[str, DTypeLike] = {
    **dict.fromkeys(("group", "op", "phase"), np.uint32),
    **dict.fromkeys(("peer", "seq", "step", "bytes"), np.int64),
    **dict.fromkeys(_TIMES, np.float64),
}


@dataclass(frozen=True, kw_only=True)
class Collectives:
    """One row per (call, member); rows of one call share `call`. All arrays have shape (row,).

    `group` indexes `Window.groups`; `rank` is the global rank; times are seconds of the member's own
    host clock, comparable across hosts only as far as `Window.clock_residual_s` says. `op_code` indexes `ops`;
    `phase_code` indexes `phases`: the canonical phase the call was issued in, "" outside of any.
    """

    call: Ints
    rank: Ints
    group: Ints
    op_code: Ints
    seq: Ints
    peer: Ints
    step: Ints
    bytes: Ints
    entry_s: Floats
    end_s: Floats
    blocked_s: Floats
    cpu_s: Floats
    phase_code: Ints
    ops: tuple[str, ...]
    phases: tuple[str, ...]

    @property
    def op(self) -> NDArray[np.str_]:
        """Name of each row's operation."""
        return np.array(self.ops or ("",))[self.op_code]

    @property
    def phase(self) -> NDArray[np.str_]:
        """Name of each row's phase."""
        return np.array(self.phases or ("",))[self.phase_code]

    def is_op(self, names: Collection[str], rows: Ints | None = None) -> Bools:
        """Whether the operation of each row, or of each of `rows`, is one of `names`. (row,)"""
        return _among(self.ops, names)[self.op_code if rows is None else self.op_code[rows]]

    def is_phase(self, names: Collection[str]) -> Bools:
        """Rows issued in one of the phases `names`. (row,)"""
        return _among(self.phases, names)[self.phase_code]


def _among(known: tuple[str, ...], names: Collection[str]) -> Bools:
    return np.array([name in names for name in known] or [False], np.bool_)


def collect(
    parts: Sequence[RankWindow], texts: Texts, topology: Topology
) -> tuple[tuple[str, ...], Collectives]:
    """Ids of the groups that have calls, and the calls of all ranks' summaries, rank by rank."""
    columns, part_of = in_columns([part.collectives for part in parts], _COLUMNS)
    told = (columns["group"], columns["op"], columns["phase"], columns["peer"])
    calls = recalled(
        topology, "named calls", (texts, part_of, *told), lambda: _named(texts, part_of, *told, topology)
    )
    seq = columns["seq"]
    # Numbers run on from window to window and faster in one group than in the next: what counts is the place.
    place = seq - seq[calls.one_of][calls.wire]
    call = recalled(
        topology, "numbered calls", (calls, place), lambda: numbered(packed(calls.wire, place))[0]
    )
    return calls.groups, Collectives(
        rank=calls.rank,
        group=calls.group,
        op_code=calls.op,
        seq=seq,
        peer=calls.peer,
        step=columns["step"],
        bytes=columns["bytes"],
        entry_s=columns["entry_ns"],
        end_s=columns["end_ns"],
        blocked_s=columns["blocked_ns"],
        cpu_s=columns["cpu_ns"],
        phase_code=calls.phase,
        ops=calls.ops,
        phases=calls.phases,
        call=call,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Named:
    """What of the calls is the same in every window. Rows as in `Collectives`; `wire` numbers what numbers its calls by
    itself (group and operation, or pair), `one_of` is its first row. (row,), (wire,)"""

    rank: Ints
    group: Ints
    op: Ints
    phase: Ints
    peer: Ints
    wire: Ints
    one_of: Ints
    groups: tuple[str, ...]
    ops: tuple[str, ...]
    phases: tuple[str, ...]


def _named(
    texts: Texts,
    part_of: Ints,
    groups: NDArray[np.uint32],
    ops: NDArray[np.uint32],
    phases: NDArray[np.uint32],
    peer: Ints,
    topology: Topology,
) -> _Named:
    """Rows with what their numbers of strings stand for."""
    reader = texts.of(part_of)
    rank = texts.ranks[part_of]
    op_names, op = reader.codes(ops)
    phase_names, phase = reader.codes(phases)
    group_ids, group = _groups(*reader.owned(groups), topology)
    wire, one_of = _wires(group=group, op=op, ops=op_names, rank=rank, peer=peer)
    return _Named(
        rank=rank,
        group=group,
        op=op,
        phase=phase,
        peer=peer,
        wire=wire,
        one_of=one_of,
        groups=group_ids,
        ops=op_names,
        phases=phase_names,
    )


def _groups(
    named: Sequence[tuple[int, str]], number: Ints, topology: Topology
) -> tuple[tuple[str, ...], Ints]:
    """Ids of the groups that the ranks' own names stand for, and each row's."""
    known: dict[str, int] = {}
    declared = zip(named, map(topology.named.get, named), strict=True)
    ids = (group.id if group else f"other/{name}" for (_, name), group in declared)
    code = [known.setdefault(name, len(known)) for name in ids]
    return tuple(known), np.array(code or [0], np.int64)[number]


def _wires(*, group: Ints, op: Ints, ops: tuple[str, ...], rank: Ints, peer: Ints) -> tuple[Ints, Ints]:
    """Number of what numbers each row's calls: group and operation, for send and receive the pair; and its first row.

    (row,), (wire,)
    """
    if not len(group):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    is_op_paired = _among(ops, PAIRED)
    wire = group * (len(ops) + 1)
    wire += np.where(is_op_paired, len(ops), np.arange(len(ops)))[op]
    paired = np.flatnonzero(is_op_paired[op])
    if len(paired):
        sends = _among(ops, ("send",))[op[paired]]
        here, there = rank[paired], peer[paired]
        pairs = packed(wire[paired], np.where(sends, here, there), np.where(sends, there, here))
        wire[paired] = int(wire.max()) + 1 + numbered(pairs)[0]
    wire, num = numbered(wire)
    one_of = np.empty(num, np.int64)
    one_of[wire[::-1]] = np.arange(len(wire))[::-1]
    return wire, one_of
