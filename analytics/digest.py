"""Reduce a window to the few numbers later windows and the detectors need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from argus.analytics.delays import delays_of
from argus.analytics.hiccup import hiccups_of
from argus.analytics.host_use import odd_hosts
from argus.analytics.kernels.digest import Engine, digest_kernels
from argus.analytics.pauses import pauses_of
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.saves import saves_of
from argus.analytics.series.live import job_series
from argus.analytics.view import Digest, View
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Floats, Ints, Window
from argus.analytics.work import (
    WORKED,
    Explained,
    amount,
    explain,
    late_by_machine,
    num_pieces,
    phase_factors,
)

GAP_PHASE = "other"
"""Where time of a step outside every phase is booked, on wall clocks."""

MIN_CLASS = 4
"""Ranks of a class before its step-to-step spread is anybody's but the suspect's."""

FLOOR_SHARE = 0.01
"""Added to both sides of a ratio, as share of the step, so that tiny phases cannot show large ratios."""


def digest_of(
    window: Window, waits: Callable[[], Waits] | None = None, *, engine: Engine | None = None
) -> Digest:
    """Digest of one window; ranks without a usable step are NaN. `engine` computes the kernels' effects.

    `waits` gives those of the window and is asked last: where another thread makes them, all else is done by then.
    """
    explained = explain(window)
    alone = _without_calls(window, explained)
    hiccups = hiccups_of(window, own_series(window), step_s=alone.typical_step_s)
    alone = replace(alone, amount=amount(window), pieces=num_pieces(window), hiccups=hiccups)
    digest = _with_calls(alone, window, explained, waits() if waits is not None else waits_of(window))
    return replace(digest, kernels=digest_kernels(window, engine=engine)) if window.kernels else digest


def _without_calls(window: Window, explained: Explained | None) -> Digest:
    """What each rank tells of itself alone."""
    phases, self_s, cpu_s, max_s = _phases(window)
    step_s = _mean(window.step_s[:, window.usable])
    classes, own_s = work_classes(window.topology, window.ranks), self_s.sum(axis=0)
    peers_s, own_peers_s = _peers(self_s, phase_factors(explained, window, phases), classes)
    nobody, unseen = np.empty(0), np.full(len(window.ranks), np.nan)
    return Digest(
        index=window.index,
        first_step=window.first_step,
        num_steps=window.num_steps,
        ranks=window.ranks,
        steps=window.steps,
        job_step_s=job_series(window),
        phases=phases,
        self_s=self_s,
        late_s=unseen,
        paths=(),
        transfer_s=nobody,
        transfer_sum_s=nobody,
        step_s=step_s,
        cpu_s=cpu_s,
        max_s=max_s,
        own_s=own_s,
        peers_s=peers_s,
        own_peers_s=own_peers_s,
        dev=_log_ratio(self_s, peers_s, step_s),
        own_dev=_log_ratio(own_s, own_peers_s, step_s),
        late_share=unseen,
        gc_s=_gc(window),
        waited_s=unseen,
        unsteady_s=_unsteady(window, explained, classes),
        num_usable=int(window.usable.sum()),
        coverage=window.coverage.ratio,
        sees_waits=False,
        pauses=pauses_of(window),
        saves=saves_of(window),
        odd_hosts=odd_hosts(window),
        balance=None if explained is None else explained.balance,
    )


def _with_calls(alone: Digest, window: Window, explained: Explained | None, waits: Waits) -> Digest:
    """And what the ranks' calls tell of one another."""
    classes, delays = work_classes(window.topology, window.ranks), delays_of(window, waits)
    late_s = waits.late_s * late_by_machine(explained, window, classes)
    late_s = np.where(np.isfinite(alone.step_s), late_s, np.nan)
    return replace(
        alone,
        late_s=late_s,
        late_share=_late_share(late_s, classes, alone.step_s),
        paths=delays.paths,
        transfer_s=delays.call_s,
        transfer_sum_s=delays.sum_s,
        waited_s=waits.waited_s,
        sees_waits=bool(len(waits.calls.first)),
    )


def _peers(self_s: Floats, factor: Floats, classes: Ints) -> tuple[Floats, Floats]:
    """What the peers would take for each rank's work: by phase (phase, rank), and in all (rank,)."""
    alike_s = self_s / factor
    more_s = (self_s - alike_s).sum(axis=0)
    own_peers_s = peer_medians(alike_s.sum(axis=0), classes) + more_s
    return peer_medians(alike_s, classes) * factor, own_peers_s


def _unsteady(window: Window, explained: Explained | None, classes: Ints) -> Floats:
    """Standard error of the mean own work, by the work it had as far as that is known. (rank,)"""
    own = window.self_s.sum(axis=0)
    for place, phase in enumerate(WORKED if explained is not None else ()):
        if explained is not None and phase in window.phases:
            times = window.self_s[window.phases.index(phase)]
            own = own - times + times / explained.factor[place]
    return unsteady_of(own[:, window.usable], classes)


def unsteady_of(times: Floats, classes: Ints) -> Floats:
    """Standard error of the mean excess, from the step-to-step spread of the class's median rank. (rank,)

    `times` (rank, usable step). Of few ranks one that is slow in bursts is the spread, so they get none.
    """
    excess = times.T - peer_medians(times.T, classes)
    found = np.zeros(len(times))
    num = times.shape[1]
    for number in np.unique(classes):
        rows = np.flatnonzero((classes == number) & np.isfinite(excess).all(axis=0))
        if len(rows) >= MIN_CLASS and num > 2:
            spread = excess[:, rows].std(axis=0, ddof=1)
            found[classes == number] = float(np.median(spread)) / np.sqrt(num)
    return found


def _typical(step_s: Floats) -> float:
    return float(np.nanmedian(step_s)) if np.isfinite(step_s).any() else np.nan


def _log_ratio(got_s: Floats, expected_s: Floats, step_s: Floats) -> Floats:
    floor = FLOOR_SHARE * _typical(step_s)
    return np.asarray(np.log((got_s + floor) / (expected_s + floor)))


def observed(view: View) -> Digest | None:
    """The digest of the view's window, made now if nobody has; None between windows."""
    if view.digest is not None or view.window is None:
        return view.digest
    waits = view.waits
    return digest_of(view.window, None if waits is None else lambda: waits)


def own_series(window: Window) -> Floats:
    """Self time of every rank in every step of the window, gap included. (rank, step)"""
    busy = window.self_s.sum(axis=0)
    if window.clock_gpu.any():
        return np.asarray(busy)
    return np.asarray(busy + _gap(window))


def _mean(values: Floats) -> Floats:
    """Mean over the last axis of what was observed, NaN where nothing was."""
    count = np.isfinite(values).sum(axis=-1)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _phases(window: Window) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Phases with their self time, CPU time and longest single step, per usable step. (phase, rank)"""
    usable = window.usable
    self_s = _mean(window.self_s[:, :, usable])
    cpu_s = _mean(np.maximum(window.cpu_s[:, :, usable], 0.0))
    seen = np.where(np.isfinite(window.self_s[:, :, usable]), window.self_s[:, :, usable], 0.0)
    max_s = seen.max(axis=-1, initial=0.0)
    phases = window.phases
    if window.clock_gpu.any():
        return phases, self_s, cpu_s, max_s
    gap = _gap(window)[:, usable]
    gap_cpu = _gap_cpu(window)[:, usable]
    if GAP_PHASE not in phases:
        phases = (*phases, GAP_PHASE)
        none = np.zeros((1, len(window.ranks)))
        self_s, cpu_s, max_s = (np.concatenate([part, none]) for part in (self_s, cpu_s, max_s))
    row = phases.index(GAP_PHASE)
    self_s[row], cpu_s[row] = self_s[row] + _mean(gap), cpu_s[row] + _mean(gap_cpu)
    return phases, self_s, cpu_s, max_s


def _gap_cpu(window: Window) -> Floats:
    """CPU time of each step outside every phase, 0 where a reader says by a negative time that none was recorded. (rank, step)"""
    rest = np.maximum(window.step_cpu_s - window.cpu_s.sum(axis=0), 0.0)
    unrecorded = (window.step_cpu_s < 0) | (window.cpu_s < 0).any(axis=0)
    return np.where(unrecorded, 0.0, rest)


def _gap(window: Window) -> Floats:
    """Time of each step outside every phase and outside blocking calls made there. (rank, step)"""
    blocked = np.zeros(window.step_s.shape)
    rows = window.collectives
    outside = np.flatnonzero(rows.is_phase(("",)) & (rows.blocked_s > 0))
    row = window.call_row[outside]
    column = rows.step[outside] - window.first_step
    inside = (column >= 0) & (column < window.num_steps)
    np.add.at(blocked, (row[inside], column[inside]), rows.blocked_s[outside][inside])
    return np.asarray(np.maximum(window.step_s - window.dur_s.sum(axis=0) - blocked, 0.0))


def _gc(window: Window) -> Floats:
    """Garbage collection pauses per usable step. (rank,)"""
    pause = np.zeros(len(window.ranks))
    usable = set(window.steps[window.usable].tolist())
    row = {rank: n for n, rank in enumerate(window.ranks.tolist())}
    for event in window.events.of_kind("gc"):
        if event.step in usable and math.isfinite(event.dur_s):
            pause[row[event.rank]] += event.dur_s
    return pause / max(len(usable), 1)


def _late_share(late_s: Floats, classes: Ints, step_s: Floats) -> Floats:
    """How much more the others waited for a rank than for its peers, as share of the step, NaN without peers. (rank,)"""
    return np.asarray((late_s - peer_medians(late_s, classes)) / _typical(step_s))
