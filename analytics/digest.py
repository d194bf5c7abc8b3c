"""Reduce a window to the few numbers later windows and the detectors need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from argus.analytics.kernel_digest import Engine, digest_kernels
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.series.live import job_series
from argus.analytics.view import Digest, View
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Bools, Floats, Ints, Window

GAP_PHASE = "other"
"""Where time of a step outside every phase is booked, on wall clocks."""

FLOOR_SHARE = 0.01
"""Added to both sides of a ratio, as share of the step, so that tiny phases cannot show large ratios."""


def digest_of(window: Window, waits: Waits | None = None, *, engine: Engine | None = None) -> Digest:
    """Digest of one window; ranks without a usable step are NaN. `engine` computes the kernels' effects."""
    digest = _digest(window, waits or waits_of(window))
    return replace(digest, kernels=digest_kernels(window, engine=engine)) if window.kernels else digest


def _digest(window: Window, waits: Waits) -> Digest:
    phases, self_s, cpu_s, max_s = _phases(window)
    step_s = _mean(window.step_s[:, window.usable])
    own_s = self_s.sum(axis=0)
    classes = work_classes(window.topology, window.ranks)
    peers_s = peer_medians(self_s, classes)
    own_peers_s = peer_medians(own_s, classes)
    late_s = np.where(np.isfinite(step_s), waits.late_s, np.nan)
    transfers = _transfers(window, waits)
    return Digest(
        index=window.index,
        first_step=window.first_step,
        num_steps=window.num_steps,
        ranks=window.ranks,
        steps=window.steps,
        job_step_s=job_series(window),
        phases=phases,
        self_s=self_s,
        late_s=late_s,
        groups=window.groups,
        transfer_s=transfers[0],
        transfer_sum_s=transfers[1],
        step_s=step_s,
        cpu_s=cpu_s,
        max_s=max_s,
        own_s=own_s,
        peers_s=peers_s,
        own_peers_s=own_peers_s,
        dev=_log_ratio(self_s, peers_s, step_s),
        own_dev=_log_ratio(own_s, own_peers_s, step_s),
        late_share=_late_share(late_s, classes, step_s),
        gc_s=_gc(window),
        waited_s=waits.waited_s,
        num_usable=int(window.usable.sum()),
        coverage=window.coverage.ratio,
        sees_waits=bool(len(waits.calls.first)),
    )


def _typical(step_s: Floats) -> float:
    return float(np.nanmedian(step_s)) if np.isfinite(step_s).any() else np.nan


def _log_ratio(got_s: Floats, expected_s: Floats, step_s: Floats) -> Floats:
    floor = FLOOR_SHARE * _typical(step_s)
    return np.asarray(np.log((got_s + floor) / (expected_s + floor)))


def observed(view: View) -> Digest | None:
    """The digest of the view's window, made now if nobody has; None between windows."""
    if view.digest is not None or view.window is None:
        return view.digest
    return digest_of(view.window, view.waits)


def own_series(window: Window, row: int) -> Floats:
    """Self time of one rank in every step of the window, gap included. (step,)"""
    busy = window.self_s[:, row].sum(axis=0)
    if window.clock_gpu.any():
        return np.asarray(busy)
    return np.asarray(busy + _gap(window)[row])


def _mean(values: Floats) -> Floats:
    """Mean over the last axis of what was observed, NaN where nothing was."""
    count = np.isfinite(values).sum(axis=-1)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _phases(window: Window) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Phases with their self time, CPU time and longest single step, per usable step. (phase, rank)"""
    usable = window.usable
    self_s = _mean(window.self_s[:, :, usable])
    cpu_s = _mean(window.cpu_s[:, :, usable])
    seen = np.where(np.isfinite(window.self_s[:, :, usable]), window.self_s[:, :, usable], 0.0)
    max_s = seen.max(axis=-1, initial=0.0)
    phases = window.phases
    if window.clock_gpu.any():
        return phases, self_s, cpu_s, max_s
    gap = _gap(window)[:, usable]
    gap_cpu = np.maximum(window.step_cpu_s - window.cpu_s.sum(axis=0), 0.0)[:, usable]
    if GAP_PHASE not in phases:
        phases = (*phases, GAP_PHASE)
        none = np.zeros((1, len(window.ranks)))
        self_s, cpu_s, max_s = (np.concatenate([part, none]) for part in (self_s, cpu_s, max_s))
    row = phases.index(GAP_PHASE)
    self_s[row], cpu_s[row] = self_s[row] + _mean(gap), cpu_s[row] + _mean(gap_cpu)
    return phases, self_s, cpu_s, max_s


def _gap(window: Window) -> Floats:
    """Time of each step outside every phase and outside blocking calls made there. (rank, step)"""
    blocked = np.zeros(window.step_s.shape)
    rows = window.collectives
    outside = np.flatnonzero((rows.phase == "") & (rows.blocked_s > 0))
    row = np.searchsorted(window.ranks, rows.rank[outside])
    column = rows.step[outside] - window.first_step
    inside = (column >= 0) & (column < window.num_steps)
    np.add.at(blocked, (row[inside], column[inside]), rows.blocked_s[outside][inside])
    return np.asarray(np.maximum(window.step_s - window.dur_s.sum(axis=0) - blocked, 0.0))


def _gc(window: Window) -> Floats:
    """Garbage collection pauses per usable step. (rank,)"""
    pause = np.zeros(len(window.ranks))
    usable = set(window.steps[window.usable].tolist())
    for event in window.events:
        if event.kind == "gc" and event.step in usable and np.isfinite(event.dur_s):
            pause[np.searchsorted(window.ranks, event.rank)] += event.dur_s
    return pause / max(len(usable), 1)


def _late_share(late_s: Floats, classes: Ints, step_s: Floats) -> Floats:
    """How much more the others waited for a rank than for its peers, as share of the step. (rank,)"""
    return np.asarray((late_s - peer_medians(late_s, classes)) / _typical(step_s))


def _transfers(window: Window, waits: Waits) -> tuple[Floats, Floats]:
    """Median transfer of a call and transfer time per usable step. (group,)"""
    calls, num = waits.calls, len(window.groups)
    counted = np.isin(calls.step, window.steps[window.usable])
    total = _per_group(calls.transfer_s, calls.group, counted, num, np.sum)
    median = _per_group(calls.transfer_s, calls.group, counted, num, np.median)
    return median, total / max(int(window.usable.sum()), 1)


def _per_group(
    values: Floats, group: Ints, counted: Bools, num: int, how: Callable[[Floats], np.floating[Any]]
) -> Floats:
    """`how` over each group's counted calls; NaN for a group without any. (group,)"""
    result = np.full(num, np.nan)
    for number in np.unique(group[counted]):
        result[number] = float(how(values[counted & (group == number)]))
    return result
