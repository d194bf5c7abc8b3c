"""The complete calls of a window, with entry times that may be compared and what had to be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from argus.analytics.clocks import clock_domains, errors_of
from argus.analytics.collectives import PAIRED
from argus.analytics.lives import Lives, lives_of
from argus.analytics.ordering import numbered, packed, stable_order
from argus.analytics.recalled import recalled
from argus.analytics.window import Bools, Floats, Ints, Window
from argus.collectors.records.events import SYMMETRIC_OPS

ONE_WAY_OPS = ("send", "recv", "broadcast", "scatter")
"""Operations whose receivers wait for one sender; nobody waits for a receiver."""

CLOCK_SHARE = 0.1
"""Clocks are good enough while their error stays below this share of the wait in question."""

ORDER_TOLERANCE_S = 1e-3
"""A member that ends before another enters is a mismatched sequence, but for this much of clock error."""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Rows of complete calls, sorted by call. Row arrays are (row,), call arrays (call,).

    `call` numbers the calls from 0; `rank` and `entry_s` are per row, ranks as rows of `Window.ranks`.
    `work_s` = own time since the rank's last release (its own clock; NaN at first), `place` = the row's
    number among its rank's calls of the step, `order` = rows in the order of each rank's life. `synced` = the
    member stood still until the call ended, `source` = it is the one the others of a one-way call wait for.
    `first` is the first row of each call, `size` its members. `by_durations` says that the entries were
    rebuilt from durations because clocks differ. `cut_group`, `cut_step` are of calls of groups that are not in here,
    for a member's record of them is missing: (cut call,).
    """

    call: Ints
    rank: Ints
    entry_s: Floats
    work_s: Floats
    place: Ints
    order: Ints
    synced: Bools
    source: Bools
    first: Ints
    size: Ints
    group: Ints
    step: Ints
    seq: Ints
    op_code: Ints
    ops: tuple[str, ...]
    end_s: Floats
    transfer_s: Floats
    by_durations: Bools
    one_way: Bools
    cut_group: Ints
    cut_step: Ints
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def op(self) -> NDArray[np.str_]:
        """Name of each call's operation."""
        return np.array(self.ops or ("",))[self.op_code]

    def is_op(self, *names: str) -> Bools:
        """Calls whose operation is one of `names`. (call,)"""
        return np.array([name in names for name in self.ops] or [False], np.bool_)[self.op_code]


def complete_calls(window: Window) -> Calls:
    """Every call all of whose members were seen, in one step and one order; the rest is counted."""
    rows = window.collectives
    skipped: dict[str, int] = {}
    sane = np.isfinite(rows.entry_s) & np.isfinite(rows.end_s) & (rows.end_s >= rows.entry_s)
    known = recalled(
        window.topology,
        "calls that wait",
        (rows.op_code, rows.ops),
        lambda: rows.is_op((*SYMMETRIC_OPS, *ONE_WAY_OPS)),
    )
    _count(skipped, "time missing", rows.call[~sane])
    _count(skipped, "operation without a wait", rows.call[sane & ~known])
    return _complete(window, sane & known, lives_of(window, sane), skipped)


def _complete(window: Window, usable: Bools, lives: Lives, skipped: dict[str, int]) -> Calls:
    rows = window.collectives
    whole = recalled(
        window.topology,
        "whole calls",
        (
            *(usable, rows.call, rows.step - window.first_step, rows.group, window.groups),
            *(rows.rank, rows.op_code, rows.ops),
        ),
        lambda: _whole(window, usable),
    )
    for reason, num in whole.skipped.items():
        skipped[reason] = skipped.get(reason, 0) + num
    members = whole.members
    entry, by_durations = _entries(window, members)
    last_in = _reduce(np.maximum, entry, members.first)
    first_out = _reduce(np.minimum, rows.end_s[members.kept], members.first)
    ordered = _in_order(window, last_in, first_out) | by_durations
    if not ordered.all():  # nobody waits for a receiver
        ordered |= rows.is_op(ONE_WAY_OPS, members.kept[members.first])
    if not ordered.all():
        _count(skipped, "sequence mismatch", rows.call[members.kept[members.first[~ordered]]])
        entry, by_durations = entry[np.repeat(ordered, members.size)], by_durations[ordered]
        last_in, first_out = last_in[ordered], first_out[ordered]
        members = members.only(ordered)
    times = _Times(entry=entry, by_durations=by_durations, last_in=last_in, first_out=first_out)
    return _calls(window, lives, replace(whole, members=members), times, skipped)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Members:
    """Rows of the window in calls, sorted by call; first row and number of members of each. (row,), (call,), (call,)"""

    kept: Ints
    first: Ints
    size: Ints

    def only(self, chosen: Bools) -> _Members:
        """Those of the `chosen` calls (call,)."""
        if chosen.all():
            return self
        kept, size = self.kept[np.repeat(chosen, self.size)], self.size[chosen]
        return _Members(kept=kept, first=(np.cumsum(size) - size).astype(np.int64), size=size)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Whole:
    """`cut_step` counts from the window's first step; the layout of a window may be that of the one before."""

    members: _Members
    cut_group: Ints
    cut_step: Ints
    skipped: Mapping[str, int]


def _whole(window: Window, usable: Bools) -> _Whole:
    """Calls all of whose members were seen, in one step."""
    rows, skipped = window.collectives, dict[str, int]()
    kept = stable_order(rows.call)
    if not usable.all():
        kept = kept[usable[kept]]
    first, size = _bounds(rows.call if len(kept) == len(rows.call) else rows.call[kept])
    whole = size == _expected(window, kept, first, size)
    cut = kept[first[~whole]]
    _count(skipped, "member missing", rows.call[cut])
    cut = cut[~rows.is_op(PAIRED, cut)]
    members = _Members(kept=kept, first=first, size=size).only(whole)
    step = rows.step[members.kept]
    other = step != np.repeat(step[members.first], members.size)
    one_step = np.ones(len(members.first), np.bool_)
    if other.any():
        one_step[np.repeat(np.arange(len(members.first)), members.size)[other]] = False
    _count(skipped, "step mismatch", rows.call[members.kept[members.first[~one_step]]])
    return _Whole(
        members=members.only(one_step),
        cut_group=rows.group[cut],
        cut_step=rows.step[cut] - window.first_step,
        skipped=skipped,
    )


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Entries that may be compared (row,); of each call whether they were rebuilt from durations, the last of them,
    and the first end (call,)."""

    entry: Floats
    by_durations: Bools
    last_in: Floats
    first_out: Floats


def _count(skipped: dict[str, int], reason: str, calls: Ints) -> None:
    if len(calls):
        skipped[reason] = skipped.get(reason, 0) + len(np.unique(calls))


def _bounds(call: Ints) -> tuple[Ints, Ints]:
    """First row and length of each call in their order, for rows that will be sorted by `call` (row,)."""
    size = np.bincount(call)
    size = size[size > 0].astype(np.int64)
    return np.cumsum(size) - size, size


def _reduce(
    ufunc: np.ufunc, values: Floats | Ints, first: Ints
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray(ufunc.reduceat(values, first)) if len(first) else np.empty(0)


def _expected(window: Window, kept: Ints, first: Ints, size: Ints) -> Ints:
    """Members each call should have: its group's ranks of the topology, else as many as were ever seen in it."""
    rows = window.collectives
    declared = {group.id: len(group.ranks) for group in window.topology.groups}
    sizes = np.array([declared.get(name, 0) for name in window.groups] or [0], np.int64)
    group = rows.group[kept[first]]
    paired = rows.is_op(PAIRED, kept[first])
    np.maximum.at(sizes, group[~paired], size[~paired])
    strange = np.flatnonzero(~np.array([name in declared for name in window.groups] or [True])[rows.group])
    if len(strange):
        key, width = packed(rows.group[strange], rows.rank[strange]), len(sizes)
        _, at = np.unique(key, return_index=True)
        sizes = np.maximum(sizes, np.bincount(rows.group[strange][at], minlength=width))
    return np.where(paired, 2, sizes[group])


def _entries(window: Window, members: _Members) -> tuple[Floats, Bools]:
    """Entry times on one clock; where hosts' clocks are too far apart, common end minus own duration."""
    rows, kept, first = window.collectives, members.kept, members.first
    entry = rows.entry_s[kept]
    errors, island = errors_of(window)
    if not len(first) or (not errors.any() and len(np.unique(island)) == 1):
        return entry, np.zeros(len(first), np.bool_)
    row = window.call_row[kept]
    here = clock_domains(window)[row]
    spans = _reduce(np.maximum, here, first) != _reduce(np.minimum, here, first)
    error = _reduce(np.maximum, errors[row], first)
    apart = _reduce(np.maximum, island[row], first) != _reduce(np.minimum, island[row], first)
    wait = _reduce(np.maximum, entry, first) - _reduce(np.minimum, entry, first)
    by_durations = np.asarray(spans & (apart | ~(error <= CLOCK_SHARE * wait)))
    lost = np.repeat(by_durations, members.size)
    end = rows.end_s[kept]
    common = np.repeat(_reduce(np.maximum, end, first), members.size)
    return np.where(lost, common - (end - entry), entry), by_durations


def _in_order(window: Window, last_in: Floats, first_out: Floats) -> Bools:
    """Nobody leaves a symmetric operation before everybody has entered. (call,)"""
    tolerance = ORDER_TOLERANCE_S + (window.clock_residual_s if np.isfinite(window.clock_residual_s) else 0)
    return np.asarray(first_out >= last_in - tolerance)


def _calls(window: Window, lives: Lives, whole: _Whole, times: _Times, skipped: Mapping[str, int]) -> Calls:
    rows, members = window.collectives, whole.members
    kept = members.kept
    same = recalled(
        window.topology,
        "calls",
        (
            *(kept, members.first, window.ranks, window.groups),
            *(rows.op_code, rows.ops, rows.group, rows.peer, rows.rank),
        ),
        lambda: _same(window, members),
    )
    end_s, transfer_s = _ends(window, members, same.wire, times)
    heads = kept[members.first]
    return Calls(
        call=same.call,
        rank=same.rank,
        entry_s=times.entry,
        work_s=lives.work_s[kept],
        place=lives.place[kept],
        order=_by_life(lives, kept, num_rows=len(rows.call)),
        synced=lives.synced[kept],
        source=same.source,
        first=members.first,
        size=members.size,
        group=same.group,
        step=rows.step[heads],
        seq=rows.seq[heads],
        op_code=same.op_code,
        ops=rows.ops,
        end_s=end_s,
        transfer_s=transfer_s,
        by_durations=times.by_durations,
        one_way=same.one_way,
        cut_group=whole.cut_group,
        cut_step=whole.cut_step + window.first_step,
        skipped=skipped,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Same:
    """What of the calls is the same in every window, named as in `Calls`; `wire` is what calls queue for. (call,)"""

    call: Ints
    rank: Ints
    source: Bools
    group: Ints
    op_code: Ints
    one_way: Bools
    wire: Ints


def _same(window: Window, members: _Members) -> _Same:
    rows, kept = window.collectives, members.kept
    heads = kept[members.first]
    source = rows.is_op(("send",), kept)
    rooted = np.flatnonzero(rows.is_op(("broadcast", "scatter"), kept))
    source[rooted] = rows.peer[kept[rooted]] == rows.rank[kept[rooted]]
    return _Same(
        call=np.repeat(np.arange(len(members.first)), members.size),
        rank=window.call_row[kept],
        source=source,
        group=rows.group[heads],
        op_code=rows.op_code[heads],
        one_way=rows.is_op(ONE_WAY_OPS, heads),
        wire=numbered(_wires(window, heads))[0],
    )


def _ends(window: Window, members: _Members, wire: Ints, times: _Times) -> tuple[Floats, Floats]:
    """End and transfer of each call. (call,) each"""
    rows, end = window.collectives, times.first_out
    if times.by_durations.any():
        kept = members.kept
        shortest = _reduce(np.minimum, rows.end_s[kept] - rows.entry_s[kept], members.first)
        end = np.where(times.by_durations, times.last_in + shortest, end)
    return end, _transfer(wire, times.last_in, end)


def _by_life(lives: Lives, kept: Ints, *, num_rows: int) -> Ints:
    """The kept rows, numbered as kept, in the order of each rank's life."""
    where = np.full(num_rows, -1, np.int64)
    where[kept] = np.arange(len(kept))
    order = where if lives.order is None else where[lives.order]
    return order if len(kept) == num_rows else order[order >= 0]


def _wires(window: Window, heads: Ints) -> Ints:
    """What calls queue for: their group, or for send and receive their pair. `heads` (call,) are their first rows. (call,)"""
    rows = window.collectives
    wire = rows.group[heads]
    paired = np.flatnonzero(rows.is_op(PAIRED, heads))
    if len(paired):
        pairs = heads[paired]
        sends = rows.is_op(("send",), pairs)
        here, there = rows.rank[pairs], rows.peer[pairs]
        sender, receiver = np.where(sends, here, there), np.where(sends, there, here)
        wire[paired] = len(window.groups) + numbered(packed(wire[paired], sender, receiver))[0]
    return wire


def _transfer(wire: Ints, last_in: Floats, end: Floats) -> Floats:
    """End minus last entry; a call queued behind the previous one on its wire starts when that one ends."""
    if not len(end):
        return np.empty(0)
    ticks = np.rint((end - end.min()) * 1e9).astype(np.int64)
    order = stable_order(packed(wire, ticks))
    before = np.full(len(end), -np.inf)
    same = wire[order][1:] == wire[order][:-1]
    before[order[1:]] = np.where(same, end[order[:-1]], -np.inf)
    return np.asarray(np.maximum(end - np.maximum(last_in, before), 0.0))
