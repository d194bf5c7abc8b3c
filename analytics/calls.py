"""The complete calls of a window, with entry times that may be compared and what had to be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.clocks import clock_domains
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
    `work_s` = own time since the rank's last release (its own clock; NaN at first). `first` is the first row of each call, `size` its members. `by_durations` says that the entries were
    rebuilt from durations because clocks differ. `synced` = the member stood still until the call ended.
    """

    call: Ints
    rank: Ints
    entry_s: Floats
    work_s: Floats
    synced: Bools
    source: Bools
    first: Ints
    size: Ints
    group: Ints
    step: Ints
    seq: Ints
    op: np.ndarray[tuple[int, ...], np.dtype[np.str_]]
    level: Ints
    end_s: Floats
    transfer_s: Floats
    by_durations: Bools
    one_way: Bools
    skipped: Mapping[str, int] = field(default_factory=dict)


def complete_calls(window: Window) -> Calls:
    """Every call all of whose members were seen, in one step and one order; the rest is counted."""
    rows = window.collectives
    skipped: dict[str, int] = {}
    one_way = np.isin(rows.op, ONE_WAY_OPS)
    sane = np.isfinite(rows.entry_s) & np.isfinite(rows.end_s) & (rows.end_s >= rows.entry_s)
    known = np.isin(rows.op, tuple(SYMMETRIC_OPS)) | one_way
    _count(skipped, "time missing", rows.call[~sane])
    _count(skipped, "operation without a wait", rows.call[sane & ~known])
    kept = np.flatnonzero(sane & known)
    kept = kept[np.argsort(rows.call[kept], kind="stable")]
    _, first, size = np.unique(rows.call[kept], return_index=True, return_counts=True)
    whole = size == _expected(window, kept, first)
    _count(skipped, "member missing", rows.call[kept][first[~whole]])
    kept, first, size = _only(kept, first, size, whole)
    one_step = _reduce(np.maximum, rows.step[kept], first) == _reduce(np.minimum, rows.step[kept], first)
    _count(skipped, "step mismatch", rows.call[kept][first[~one_step]])
    kept, first, size = _only(kept, first, size, one_step)
    entry, by_durations = _entries(window, kept, first, size)
    ordered = _in_order(window, kept, first, entry, by_durations) | one_way[kept][first]
    _count(skipped, "sequence mismatch", rows.call[kept][first[~ordered]])
    member = np.repeat(ordered, size)
    kept, entry, by_durations = kept[member], entry[member], by_durations[ordered]
    size = size[ordered]
    first = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64) if len(size) else size
    return _calls(window, kept, first, size, entry, by_durations, skipped)


def _count(skipped: dict[str, int], reason: str, calls: Ints) -> None:
    if len(calls):
        skipped[reason] = skipped.get(reason, 0) + len(np.unique(calls))


def _only(kept: Ints, first: Ints, size: Ints, chosen: Bools) -> tuple[Ints, Ints, Ints]:
    kept, size = kept[np.repeat(chosen, size)], size[chosen]
    return kept, (np.cumsum(size) - size).astype(np.int64), size


def _reduce(
    ufunc: np.ufunc, values: Floats | Ints, first: Ints
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray(ufunc.reduceat(values, first)) if len(first) else np.empty(0)


def _expected(window: Window, kept: Ints, first: Ints) -> Ints:
    """Members each call should have: its group's ranks of the topology that are part of the window."""
    rows = window.collectives
    declared = {group.id: group.ranks for group in window.topology.groups}
    sizes = np.zeros(len(window.groups), np.int64)
    for number, name in enumerate(window.groups):
        seen = np.unique(rows.rank[rows.group == number])
        sizes[number] = max(len(declared.get(name, ())), len(seen))
    p2p = np.isin(rows.op[kept][first], ("send", "recv"))
    return np.where(p2p, 2, sizes[rows.group[kept][first]])


def _entries(window: Window, kept: Ints, first: Ints, size: Ints) -> tuple[Floats, Bools]:
    """Entry times on one clock; where hosts' clocks are too far apart, common end minus own duration."""
    rows = window.collectives
    entry, end = rows.entry_s[kept].copy(), rows.end_s[kept]
    if not len(first) or window.clock_residual_s <= 0:
        return entry, np.zeros(len(first), np.bool_)
    here = clock_domains(window)[np.searchsorted(window.ranks, rows.rank[kept])]
    spans = _reduce(np.maximum, here, first) != _reduce(np.minimum, here, first)
    wait = _reduce(np.maximum, entry, first) - _reduce(np.minimum, entry, first)
    by_durations = np.asarray(spans & ~(window.clock_residual_s <= CLOCK_SHARE * wait))
    common = np.repeat(_reduce(np.maximum, end, first), size)
    return np.where(np.repeat(by_durations, size), common - (end - entry), entry), by_durations


def _in_order(window: Window, kept: Ints, first: Ints, entry: Floats, by_durations: Bools) -> Bools:
    """Nobody leaves a symmetric operation before everybody has entered."""
    tolerance = ORDER_TOLERANCE_S + (window.clock_residual_s if np.isfinite(window.clock_residual_s) else 0)
    ends = _reduce(np.minimum, window.collectives.end_s[kept], first)
    return np.asarray(by_durations | (ends >= _reduce(np.maximum, entry, first) - tolerance))


def _calls(
    window: Window,
    kept: Ints,
    first: Ints,
    size: Ints,
    entry: Floats,
    by_durations: Bools,
    skipped: Mapping[str, int],
) -> Calls:
    rows = window.collectives
    call = np.repeat(np.arange(len(first)), size)
    rank = np.searchsorted(window.ranks, rows.rank[kept]).astype(np.int64)
    work, synced, place = _life(window, kept, rank)
    op, peer = rows.op[kept], rows.peer[kept]
    source = (op == "send") | (np.isin(op, ("broadcast", "scatter")) & (peer == rows.rank[kept]))
    one_way = np.isin(op[first], ONE_WAY_OPS)
    last_in = _reduce(np.maximum, entry, first)
    shortest = _reduce(np.minimum, rows.end_s[kept] - rows.entry_s[kept], first)
    end = np.where(by_durations, last_in + shortest, _reduce(np.minimum, rows.end_s[kept], first))
    group = rows.group[kept][first]
    return Calls(
        call=call,
        rank=rank,
        entry_s=entry,
        work_s=work,
        synced=synced,
        source=source,
        first=first,
        size=size,
        group=group,
        step=rows.step[kept][first],
        seq=rows.seq[kept][first],
        op=op[first],
        level=_reduce(np.maximum, place, first).astype(np.int64),
        end_s=end,
        transfer_s=_transfer(group, last_in, end),
        by_durations=by_durations,
        one_way=one_way,
        skipped=skipped,
    )


def _transfer(group: Ints, last_in: Floats, end: Floats) -> Floats:
    """End minus last entry; a call queued behind the group's previous one starts when that one ends."""
    order = np.lexsort((end, group))
    before = np.full(len(end), -np.inf)
    same = group[order][1:] == group[order][:-1]
    before[order[1:]] = np.where(same, end[order[:-1]], -np.inf)
    return np.asarray(np.maximum(end - np.maximum(last_in, before), 0.0))


def _life(window: Window, kept: Ints, rank: Ints) -> tuple[Floats, Bools, Ints]:
    """Per row: time since the rank was last released, whether it stood still for the call, and the call's
    place among the rank's calls of the step. Own clocks only."""
    rows = window.collectives
    entry, end, step = rows.entry_s[kept], rows.end_s[kept], rows.step[kept]
    blocked = np.nan_to_num(rows.blocked_s[kept])
    order = np.lexsort((entry, step, rank))
    index = np.arange(len(order))
    new_rank = np.diff(rank[order], prepend=-1) != 0
    new_step = new_rank | (np.diff(step[order], prepend=-1) != 0)
    place = index - np.maximum.accumulate(np.where(new_step, index, 0))
    last = np.append(new_step[1:], True)[: len(order)]
    if (blocked > 0).any():
        synced = last | (blocked[order] > 0)
    else:  # nobody says who blocked: a rank that enters its next call before this one ended did not wait
        synced = last | (np.append(entry[order][1:], np.inf)[: len(order)] >= end[order])
    free = np.maximum(entry[order] + blocked[order], np.where(synced, end[order], -np.inf))
    released = np.where(new_rank, np.nan, np.roll(free, 1))
    work, stood, at = np.empty(len(order)), np.empty(len(order), np.bool_), np.empty(len(order), np.int64)
    work[order], stood[order], at[order] = entry[order] - released, synced, place
    return work, stood, at
