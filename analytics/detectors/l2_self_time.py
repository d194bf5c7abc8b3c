"""L2: a rank whose own work in a phase takes longer than that of ranks doing the same work.

Sums over the usable steps of the window, waiting excluded, against the median of the other members of the
rank's work class. The limit comes from the run's own healthy spread and a false-alarm budget; for classes of
five ranks or fewer, where a z-score over the class cannot fire (argus-paper.md §9 row 18), that spread over
past windows and a ratio decide.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    Outlier,
    align_past,
    is_comparable,
    outliers,
    phase_of,
    rank_history,
    window_seconds,
)
from argus.analytics.digest import FLOOR_SHARE, GAP_PHASE, observed, unsteady_of
from argus.analytics.finding import Evidence, Finding
from argus.analytics.hiccup import lasts, one_step, recurs
from argus.analytics.lone import stands_out
from argus.analytics.peers import class_sizes, work_classes
from argus.analytics.robust import leave_one_out_median
from argus.analytics.view import Digest, View
from argus.analytics.window import Bools, Floats, Ints, Window
from argus.collectors.records.events import COMM_PHASES

NEEDS = "slow_rank"

NOT_WORK = COMM_PHASES | {"checkpoint", "eval"}
"""Phases that accuse nobody: their time is transfer, or known and uneven by design."""

SMALL = 5
"""Classes up to this size use the larger ratio."""


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_ratio: float = 1.03,  # 0.6 of the 5 % slowdown that is to be found
    min_ratio_small: float = 1.06,  # 0.6 of 10 %: the median of few peers is itself uncertain
    min_share: float = 0.02,  # an excess below 2 % of the step is worth nobody's time
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """One culprit finding per rank and phase; `phase` None = all of the rank's own work in the step."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    classes = work_classes(view.topology, digest.ranks)
    is_small = class_sizes(classes, np.isfinite(digest.own_s)) <= SMALL
    ratio_gate = np.log(np.where(is_small, min_ratio_small, min_ratio))
    rows = [name for name in digest.phases if name not in NOT_WORK]
    past = align_past(view.past, digest)
    found: list[Finding] = []
    for phase in (None, *rows):
        dev, excess = _row(digest, phase)
        share = np.nan_to_num(excess / digest.typical_step_s)
        chosen = (share >= min_share) & (np.nan_to_num(dev) >= ratio_gate)
        if not chosen.any():  # the usual case, and the noise of a large job takes long to measure
            continue
        test = outliers(
            dev,
            rank_history(past, len(digest.ranks), partial(_past, phase=phase)),
            tests=(len(rows) + 1) * len(digest.ranks),
            window_s=window_seconds(digest, is_lone=view.is_lone),
            budget_per_day=false_alarms_per_day,
            is_lone=view.is_lone,
            unsteady=_unsteady(view.window, digest, classes, phase),
            learns_level=True,
            asked=chosen,
        )
        chosen &= test.exceeds
        chosen &= not chosen.any() or _repeats(view, digest, classes, phase, share=share, limit=test.limit)
        found += [_finding(view, digest, int(row), phase, test) for row in np.flatnonzero(chosen)]
    return tuple(found)


def _repeats(
    view: View, digest: Digest, classes: Ints, phase: str | None, *, share: Floats, limit: Floats
) -> Bools:
    """Whether the excess is in most steps and beyond its limit without what the worst of them adds, or is in one or two
    of window after window; in a lone window more is asked for. (rank,)"""
    assert view.window is not None
    steps, (deviation, _) = _by_step(view.window, phase), _row(digest, phase)
    if view.is_lone:
        return stands_out(steps, classes, deviation=deviation, share=share)
    without = np.exp(deviation) - one_step(steps, classes) / _base(digest, phase)
    is_lasting = lasts(steps, classes) & (without >= np.exp(limit))
    return np.asarray(is_lasting | recurs((*view.past, digest), view.topology, digest.ranks))


def _by_step(window: Window, phase: str | None) -> Floats:
    """Self time of the phase, or of all own work, in every usable step; gaps count as `GAP_PHASE`. (rank, step)"""
    parts = [window.self_s[i] for i, name in enumerate(window.phases) if phase in (None, name)]
    total: Floats = sum(parts, np.zeros_like(window.step_s))
    if phase in (None, GAP_PHASE) and not window.clock_gpu.any():
        total = total + np.maximum(window.step_s - window.dur_s.sum(axis=0), 0.0)
    return total[:, window.usable]


def _row(digest: Digest, phase: str | None) -> tuple[Floats, Floats]:
    if phase is None:
        return digest.own_dev, digest.own_s - digest.own_peers_s
    index = digest.phases.index(phase)
    return digest.dev[index], digest.self_s[index] - digest.peers_s[index]


def _unsteady(window: Window, digest: Digest, classes: Ints, phase: str | None) -> Floats:
    """Noise of the window's mean by its own steps, as deviation of the phase. (rank,)

    A phase strays no more than all own work does, and a short one far less: nobody waits for data by chance.
    """
    noise_s = digest.unsteady_s
    if phase is not None:
        noise_s = np.fmin(noise_s, unsteady_of(_by_step(window, phase), classes))
    return np.asarray(noise_s / _base(digest, phase))


def _base(digest: Digest, phase: str | None) -> Floats:
    """What a deviation of the phase is a ratio to. (rank,)"""
    expected = digest.own_peers_s if phase is None else digest.peers_s[digest.phases.index(phase)]
    return np.asarray(expected + FLOOR_SHARE * digest.typical_step_s)


def _past(past: Digest, phase: str | None) -> Floats | None:
    return past.own_dev if phase is None else phase_of(past, phase, lambda digest: digest.dev)


def _finding(view: View, digest: Digest, row: int, phase: str | None, test: Outlier) -> Finding:
    rank = int(digest.ranks[row])
    got, expected = _got(digest, row, phase)
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_self_time",
        kind="self_time",
        role="culprit",
        ranks=(rank,),
        nodes=(f"rank:{rank}",),
        phase=phase,
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=got / expected if expected > 0 else None,
        effect_s_per_step=got - expected,
        share_of_step=(got - expected) / digest.typical_step_s,
        significance=float(test.significance[row]),
        evidence=(
            Evidence(name="self_s", value=got, unit="s", baseline=expected),
            *_cpu(digest, row, phase),
            *_longest(digest, row, phase),
            Evidence(
                name="limit_ratio",
                value=float(np.exp(test.limit[row])),
                note="self time over peers' noise may reach",
            ),
        ),
    )


def _got(digest: Digest, row: int, phase: str | None) -> tuple[float, float]:
    if phase is None:
        return float(digest.own_s[row]), float(digest.own_peers_s[row])
    index = digest.phases.index(phase)
    return float(digest.self_s[index, row]), float(digest.peers_s[index, row])


def _cpu(digest: Digest, row: int, phase: str | None) -> tuple[Evidence, ...]:
    cpu = digest.cpu_s.sum(axis=0) if phase is None else digest.cpu_s[digest.phases.index(phase)]
    peers = _others(cpu, row)
    return (Evidence(name="cpu_s", value=float(cpu[row]), unit="s", baseline=peers),)


def _longest(digest: Digest, row: int, phase: str | None) -> tuple[Evidence, ...]:
    if phase is None:
        return ()
    longest = digest.max_s[digest.phases.index(phase)]
    return (Evidence(name="max_s", value=float(longest[row]), unit="s", baseline=_others(longest, row)),)


def _others(values: Floats, row: int) -> float | None:
    seen: Ints = np.flatnonzero(np.isfinite(values))
    if len(seen) < 2 or row not in seen:
        return None
    return float(leave_one_out_median(values[seen])[np.searchsorted(seen, row)])
