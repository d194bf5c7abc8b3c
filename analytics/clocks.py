"""Put all ranks of a window on one clock, estimated on the ends of their collectives.

A symmetric collective ends for all members together, so the difference of its ends between two clocks is
their offset (reference: attention-gym PR 487; simpler PR 2099 for what happens without). Offsets are
medians over calls, spread over groups that share a clock; drift is the resistant line of what they leave. What
is left then is each clock's error: where it is large against a wait, durations are used instead (`calls`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.ordering import numbered, packed
from argus.analytics.recalled import recalled
from argus.analytics.robust import grouped_median
from argus.analytics.window import Bools, Floats, Ints, RankClocks, Window
from argus.collectors.records.events import SYMMETRIC_OPS

COMMON_CLOCK = "common clock"
ALIGNED = "collective ends"
DURATIONS = "durations"

RESOLUTION_S = 50e-6
"""Offsets below this are what ends of one call differ by on one clock; correcting them would add noise."""

MEDIAN_TO_P95 = 2.9
"""Ratio of the 95th percentile to the median of |x| for a normal x."""

MIN_DRIFT_CALLS = 3
"""Calls of a clock in the first and in the last third of a window before it may drift."""

DRIFT_GAIN = 0.5
"""A drift is believed when it explains at least half of what is left of the offsets."""

JUMP_S, JUMP, JUMP_SHARE = 1e-3, 10.0, 0.05
"""A clock has jumped when so many of its calls lie a millisecond and ten times its usual error away."""

MAX_ANCHORS = 60_000
"""Ends that are compared: a thousand hosts with sixty calls each."""

ROWS_AN_ANCHOR = 4
"""Rows looked at for each end that is compared: those of one host count as one."""

_ROUNDS = 20
"""Alternating medians settle in two or three rounds; a chain of groups is solved by the spanning order."""


def align(window: Window) -> Window:
    """The window with entries and ends on one clock, `clock_method`, `clock_residual_s` and `clocks` to match.

    A window of one known host stays as it is. Without two clocks that share a call nothing can be
    compared: method `durations`, residual infinite.
    """
    domain = clock_domains(window)
    if len(np.unique(domain)) <= 1:
        return window
    num = int(domain.max()) + 1
    anchors = _anchors(window, domain)
    if not len(anchors.call):
        return replace(window, clock_method=DURATIONS, clock_residual_s=float("inf"))
    fit = _fitted(anchors, num)
    rows = window.collectives
    if fit.offset_s.any() or fit.drift.any():
        clock = domain[window.call_row]
        entry_s = rows.entry_s - fit.shift_s(rows.entry_s, clock)
        rows = replace(rows, entry_s=entry_s, end_s=rows.end_s - fit.shift_s(rows.end_s, clock))
    return replace(
        window,
        collectives=rows,
        clock_method=ALIGNED if fit.offset_s.any() or fit.drift.any() else COMMON_CLOCK,
        clock_residual_s=fit.residual_s,
        clocks=RankClocks(
            offset_s=fit.offset_s[domain],
            drift=fit.drift[domain],
            error_s=fit.error_s[domain],
            island=fit.island[domain],
        ),
    )


def errors_of(window: Window) -> tuple[Floats, Ints]:
    """How far each rank's clock may be off, and which ranks' clocks are tied together at all. (rank,) each"""
    if window.clocks is None:
        num = len(window.ranks)
        return np.full(num, window.clock_residual_s), np.zeros(num, np.int64)
    return window.clocks.error_s, window.clocks.island


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """(clock,): `offset_s` at `origin_s`, `drift` in seconds per second, `error_s`, `island`."""

    offset_s: Floats
    drift: Floats
    error_s: Floats
    island: Ints
    origin_s: float
    residual_s: float

    def shift_s(self, times_s: Floats, clock: Ints) -> Floats:
        """What to take off readings of a clock. (row,)"""
        return np.asarray(self.offset_s[clock] + self.drift[clock] * (times_s - self.origin_s))


def _fitted(anchors: _Anchors, num: int) -> _Fit:
    """Offsets where they exceed what ends of one call differ by anyway, drifts where they lower the residual."""
    offset, island = _offsets(anchors, num)
    spread = _residual(_off(anchors, offset))
    needed = np.abs(offset) > max(RESOLUTION_S, spread)
    offset = np.where(needed & np.isfinite(offset), offset, 0.0)
    origin_s = float(np.median(anchors.end))
    off = _off(anchors, offset)
    drift = _drifts(anchors, off, num, origin_s=origin_s)
    flat = off - drift[anchors.domain] * (anchors.end - origin_s)
    return _Fit(
        offset_s=offset,
        drift=drift,
        error_s=_errors(flat, anchors.domain, num),
        island=island,
        origin_s=origin_s,
        residual_s=_residual(flat),
    )


def _off(anchors: _Anchors, offset: Floats) -> Floats:
    """How far each end lies from its call's, these offsets taken out. (row,)"""
    ends = anchors.end - offset[anchors.domain]
    true_end = grouped_median(ends, anchors.call, int(anchors.call.max()) + 1)
    return np.asarray(ends - true_end[anchors.call])


def _drifts(anchors: _Anchors, off: Floats, num: int, *, origin_s: float) -> Floats:
    """Rate of each clock by Tukey's resistant line: medians of the first and of the last third. (clock,)"""
    time = anchors.end - origin_s
    low, high = np.quantile(time, [1 / 3, 2 / 3])
    early, late = time <= low, time >= high
    domain = anchors.domain

    def middle(values: Floats, chosen: Bools) -> Floats:
        return grouped_median(values[chosen], domain[chosen], num)

    run = middle(time, late) - middle(time, early)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = (middle(off, late) - middle(off, early)) / run
    enough = np.minimum(np.bincount(domain[early], minlength=num), np.bincount(domain[late], minlength=num))
    rate = np.where((enough >= MIN_DRIFT_CALLS) & np.isfinite(rate), rate, 0.0)
    before = grouped_median(np.abs(off), domain, num)
    after = grouped_median(np.abs(off - rate[domain] * time), domain, num)
    moved = np.abs(rate) * (float(time.max()) - float(time.min()))
    better = (after < DRIFT_GAIN * before) & (moved > RESOLUTION_S)
    return np.where(np.nan_to_num(better), rate, 0.0)


def _errors(off: Floats, domain: Ints, num: int) -> Floats:
    """Error of each clock; infinite where no call ties it, or where part of its calls lie elsewhere: a jump."""
    typical = grouped_median(np.abs(off), domain, num) * MEDIAN_TO_P95
    far = np.abs(off) > np.maximum(JUMP_S, JUMP * np.nan_to_num(typical)[domain])
    count = np.bincount(domain, minlength=num)
    jumped = np.bincount(domain[far], minlength=num) > JUMP_SHARE * np.maximum(count, 1)
    return np.where(jumped | ~np.isfinite(typical), np.inf, typical)


def clock_domains(window: Window) -> Ints:
    """Which clock each rank reads, as a number: its host's, or its own if the host is unknown. (rank,)"""
    told = (window.ranks, window.collectives.rank)
    return recalled(window.topology, "clocks", told, lambda: _clock_domains(window))


def _clock_domains(window: Window) -> Ints:
    seen = np.zeros(len(window.ranks), np.bool_)
    seen[window.call_row] = True
    numbers: dict[str, int] = {}
    out = np.zeros(len(window.ranks), np.int64)  # a rank that never reported reads no clock: any will do
    for row, rank in enumerate(window.ranks.tolist()):
        host = window.topology.host_of(rank)
        if host or seen[row]:
            out[row] = numbers.setdefault(f"host:{host}" if host else f"rank:{rank}", len(numbers))
    return out


@dataclass(frozen=True, kw_only=True)
class _Anchors:
    """One row per (call, clock): when the call ended on that clock. Sorted by call. (row,)"""

    call: Ints
    domain: Ints
    end: Floats


def _anchors(window: Window, domain: Ints) -> _Anchors:
    """Ends of symmetric calls seen on more than one clock; of one clock's members the median counts.

    Of millions of rows every n-th call is looked at, unless that leaves out a clock: most of the work is to sort them.
    """
    rows = window.collectives
    usable = np.flatnonzero(rows.is_op(SYMMETRIC_OPS) & np.isfinite(rows.end_s))
    step = max(len(usable) // (ROWS_AN_ANCHOR * MAX_ANCHORS), 1)
    if step > 1:
        few = _ends(window, domain, usable[rows.call[usable] % step == 0])
        seen = np.bincount(window.call_row, minlength=len(domain)) > 0
        if len(np.unique(few.domain)) == len(np.unique(domain[seen])):
            return few
    return _ends(window, domain, usable)


def _ends(window: Window, domain: Ints, usable: Ints) -> _Anchors:
    """The ends in the rows `usable`."""
    rows = window.collectives
    clock = domain[window.call_row[usable]]
    call = rows.call[usable]
    shared = _on_several_clocks(call, clock)[call]
    usable, clock, call = usable[shared], clock[shared], call[shared]
    pair, num = numbered(packed(call, clock))
    ends = grouped_median(rows.end_s[usable], pair, num)
    first = np.zeros(num, np.int64)
    first[pair] = np.arange(len(pair))
    return _thinned(_Anchors(call=numbered(call[first])[0], domain=clock[first], end=ends))


def _on_several_clocks(call: Ints, clock: Ints) -> Bools:
    """Whether a call was seen on more than one clock. (call,)"""
    num = int(call.max(initial=-1)) + 1
    low, high = np.full(num, np.iinfo(np.int64).max), np.full(num, -1, np.int64)
    np.minimum.at(low, call, clock)
    np.maximum.at(high, call, clock)
    return np.asarray(high > low)


def _offsets(anchors: _Anchors, num_clocks: int) -> tuple[Floats, Ints]:
    """Offset of each clock, the median clock of each island being right, and its island. (clock,) each"""
    offset, component = _spanning(anchors, num_clocks)
    calls = int(anchors.call.max()) + 1
    for _ in range(_ROUNDS):
        true_end = grouped_median(anchors.end - offset[anchors.domain], anchors.call, calls)
        better = grouped_median(anchors.end - true_end[anchors.call], anchors.domain, num_clocks)
        better = np.where(np.isfinite(better), better, offset)
        settled = bool(np.nanmax(np.abs(better - offset), initial=0.0) < 1e-8)
        offset = better
        if settled:
            break
    for number in np.unique(component[component >= 0]):
        here = component == number
        offset[here] -= np.median(offset[here])
    return offset, component


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
            estimate = grouped_median(ends, anchors.call[placed], calls)
            true_end = np.where(np.isnan(true_end), estimate, true_end)
            reach = np.isfinite(true_end[anchors.call]) & (component[anchors.domain] < 0)
            fresh = np.unique(anchors.domain[reach])
            step = grouped_median(
                anchors.end[reach] - true_end[anchors.call[reach]], anchors.domain[reach], num_clocks
            )
            offset[fresh], component[fresh] = step[fresh], seed
    return offset, component


def _residual(off: Floats) -> float:
    """How far 95 % of regular ends lie from their call's.

    From the median, so that a few calls which really end unequally do not discredit the clocks.
    """
    return float(np.median(np.abs(off)) * MEDIAN_TO_P95)


def _thinned(anchors: _Anchors) -> _Anchors:
    """Every n-th call where there are many: a median knows enough by then."""
    calls = int(anchors.call.max(initial=-1)) + 1
    step = max(len(anchors.call) // MAX_ANCHORS, 1)
    if step == 1 or calls < step:
        return anchors
    kept = anchors.call % step == 0
    if len(np.unique(anchors.domain[kept])) < len(np.unique(anchors.domain)):
        return anchors
    return _Anchors(call=numbered(anchors.call[kept])[0], domain=anchors.domain[kept], end=anchors.end[kept])
