"""Put all ranks of a window on one clock, estimated on the ends of their collectives.

A symmetric collective ends for all members together, so the difference of its ends between two clocks is
their offset (reference: attention-gym PR 487; simpler PR 2099 for what happens without). Offsets are
medians over calls, spread over groups that share a clock; drift inside one window is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.window import Floats, Ints, Window
from argus.collectors.records.events import SYMMETRIC_OPS

COMMON_CLOCK = "common clock"
ALIGNED = "collective ends"
DURATIONS = "durations"

RESOLUTION_S = 50e-6
"""Offsets below this are what ends of one call differ by on one clock; correcting them would add noise."""

MEDIAN_TO_P95 = 2.9
"""Ratio of the 95th percentile to the median of |x| for a normal x."""

_ROUNDS = 20
"""Alternating medians settle in two or three rounds; a chain of groups is solved by the spanning order."""


def align(window: Window) -> Window:
    """The window with entries and ends on one clock, `clock_method` and `clock_residual_s` to match.

    A window of one known host stays as it is. Without two clocks that share a call nothing can be
    compared: method `durations`, residual infinite.
    """
    domain = clock_domains(window)
    if len(np.unique(domain)) <= 1:
        return window
    anchors = _anchors(window, domain)
    if not len(anchors.call):
        return replace(window, clock_method=DURATIONS, clock_residual_s=float("inf"))
    offset = _offsets(anchors, int(domain.max()) + 1)
    spread = _residual(anchors, offset)
    needed = np.abs(offset) > max(RESOLUTION_S, spread)
    offset = np.where(needed & np.isfinite(offset), offset, 0.0)
    rows = window.collectives
    shift = offset[domain[np.searchsorted(window.ranks, rows.rank)]]
    return replace(
        window,
        collectives=replace(rows, entry_s=rows.entry_s - shift, end_s=rows.end_s - shift),
        clock_method=ALIGNED if needed.any() else COMMON_CLOCK,
        clock_residual_s=_residual(anchors, offset),
    )


def clock_domains(window: Window) -> Ints:
    """Which clock each rank reads, as a number: its host's, or its own if the host is unknown. (rank,)"""
    seen = set(np.unique(window.collectives.rank).tolist())
    numbers: dict[str, int] = {}
    out = np.zeros(len(window.ranks), np.int64)  # a rank that never reported reads no clock: any will do
    for row, rank in enumerate(window.ranks.tolist()):
        host = window.topology.host_of(rank)
        if host or rank in seen:
            out[row] = numbers.setdefault(f"host:{host}" if host else f"rank:{rank}", len(numbers))
    return out


@dataclass(frozen=True, kw_only=True)
class _Anchors:
    """One row per (call, clock): when the call ended on that clock. Sorted by call. (row,)"""

    call: Ints
    domain: Ints
    end: Floats


def _anchors(window: Window, domain: Ints) -> _Anchors:
    """Ends of symmetric calls seen on more than one clock; of one clock's members the median counts."""
    rows = window.collectives
    usable = np.isin(rows.op, tuple(SYMMETRIC_OPS)) & np.isfinite(rows.end_s)
    call, end = rows.call[usable], rows.end_s[usable]
    clock = domain[np.searchsorted(window.ranks, rows.rank[usable])]
    pair, inverse = np.unique(np.stack([call, clock], axis=1), axis=0, return_inverse=True)
    if not len(pair):
        return _Anchors(call=np.empty(0, np.int64), domain=np.empty(0, np.int64), end=np.empty(0))
    middle = _medians(end, inverse.reshape(-1), len(pair))
    _, which, count = np.unique(pair[:, 0], return_inverse=True, return_counts=True)
    shared = count[which.reshape(-1)] > 1
    _, call = np.unique(pair[shared, 0], return_inverse=True)
    return _Anchors(call=call.reshape(-1).astype(np.int64), domain=pair[shared, 1], end=middle[shared])


def _offsets(anchors: _Anchors, num_clocks: int) -> Floats:
    """Offset of each clock, the median clock of each connected component being right. (clock,)"""
    offset, component = _spanning(anchors, num_clocks)
    calls = int(anchors.call.max()) + 1
    for _ in range(_ROUNDS):
        true_end = _medians(anchors.end - offset[anchors.domain], anchors.call, calls)
        better = _medians(anchors.end - true_end[anchors.call], anchors.domain, num_clocks)
        better = np.where(np.isfinite(better), better, offset)
        settled = bool(np.nanmax(np.abs(better - offset), initial=0.0) < 1e-8)
        offset = better
        if settled:
            break
    for number in np.unique(component[component >= 0]):
        here = component == number
        offset[here] -= np.median(offset[here])
    return offset


def _spanning(anchors: _Anchors, num_clocks: int) -> tuple[Floats, Ints]:
    """First offsets, clock by clock along shared calls, and the component of each clock. (clock,)"""
    offset = np.zeros(num_clocks)
    component = np.full(num_clocks, -1, np.int64)
    calls = int(anchors.call.max()) + 1
    true_end = np.full(calls, np.nan)
    for seed in np.unique(anchors.domain):
        if component[seed] >= 0:
            continue
        component[seed] = seed
        fresh = np.array([seed])
        while len(fresh):
            placed = np.isin(anchors.domain, fresh)
            ends = anchors.end[placed] - offset[anchors.domain[placed]]
            estimate = _medians(ends, anchors.call[placed], calls)
            true_end = np.where(np.isnan(true_end), estimate, true_end)
            reach = np.isfinite(true_end[anchors.call]) & (component[anchors.domain] < 0)
            fresh = np.unique(anchors.domain[reach])
            step = _medians(
                anchors.end[reach] - true_end[anchors.call[reach]], anchors.domain[reach], num_clocks
            )
            offset[fresh], component[fresh] = step[fresh], seed
    return offset, component


def _residual(anchors: _Anchors, offset: Floats) -> float:
    """How far 95 % of regular ends lie from their call's, with these offsets taken out.

    From the median, so that a few calls which really end unequally do not discredit the clocks.
    """
    ends = anchors.end - offset[anchors.domain]
    true_end = _medians(ends, anchors.call, int(anchors.call.max()) + 1)
    return float(np.median(np.abs(ends - true_end[anchors.call])) * MEDIAN_TO_P95)


def _medians(values: Floats, key: Ints, num: int) -> Floats:
    """Median of the values of each key, NaN for keys without any. (num,)"""
    out = np.full(num, np.nan)
    order = np.lexsort((values, key))
    keys, first, count = np.unique(key[order], return_index=True, return_counts=True)
    ordered = values[order]
    out[keys] = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    return out
