"""How long a rank's compute should take, from the work it says it had: tokens, squared lengths, routed tokens.

Ranks of one class are fitted together over the steps of a window: time = a + Σ b·amount with b ≥ 0, by least
absolute deviations, so that one slow rank does not bend the line. Where the fit explains what made times
differ, a rank is compared with what its own work would take (argus-paper.md §9 row 22; incidents.md, K and L).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.window import Bools, Floats, Ints, Window

PREFIX = "work:"
WORK = ("work:tokens", "work:samples")
"""Events that tell how much a rank had to do, the better first."""

WORKED = ("forward", "backward")
"""Phases whose time follows the work."""

EXPERT_UNITS = "expert"
"""Units that begin so count what was routed to a rank's experts."""

MIN_SPREAD = 0.01
"""Work that differs by less than 1 % explains nothing worth a correction."""

MIN_SAMPLES = 24
"""Rank-steps before a line with two or three slopes is fitted."""

MIN_EXPLAINED = 0.3
"""The fit must take away so much of the typical deviation: noise alone yields a tenth of it."""

ROUNDS = 8
"""Reweighted least squares settle on absolute deviations within a few rounds."""

MAX_FACTOR = 10.0
"""No work makes a step ten times as long as usual: beyond it is a broken unit."""


@dataclass(frozen=True, kw_only=True)
class Balance:
    """How evenly the work of a window was spread.

    `lost_s` = seconds a step that the rank with most work takes beyond the mean; `by_unit` = the part of it
    each unit accounts for; `explained` = share of the typical deviation of times that the work explains.
    """

    lost_s: float
    by_unit: Mapping[str, float]
    explained: float


@dataclass(frozen=True, kw_only=True)
class Explained:
    """`factor` (phase, rank, step) = expected over usual time of `WORKED` phases, 1 where nothing is known."""

    factor: Floats
    balance: Balance


PIECES = "micro_batches"
"""Unit of work of ranks that tell none: how often the forward ran."""


def pieces(window: Window) -> Floats | None:
    """How often each rank's forward ran in each step, None where nobody counted. (rank, step)"""
    if window.num is None or "forward" not in window.phases:
        return None
    return np.asarray(window.num[window.phases.index("forward")])


def num_pieces(window: Window) -> float:
    """Micro-batches of a usable step of the median rank, 0 where nobody counted."""
    ran = pieces(window)
    seen = ran[:, window.usable] if ran is not None else np.empty(0)
    seen = seen[np.isfinite(seen)]
    return float(np.median(seen)) if seen.size else 0.0


def amount(window: Window) -> tuple[str, float] | None:
    """Work of a usable step of the mean rank and its unit: tokens or samples as told, else micro-batches."""
    steps = window.steps[window.usable]
    for kind in WORK:
        events = window.events.of_kind(kind)
        told = events.value[np.isin(events.step, steps)]
        if len(told) and np.isfinite(told).all() and told.sum() > 0:
            return kind.removeprefix(PREFIX), float(told.mean())
    ran = num_pieces(window)
    return (PIECES, ran) if ran > 0 else None


def work_units(window: Window) -> dict[str, Floats]:
    """What each rank reported of each step, by unit, else its micro-batches; NaN where there is nothing. (rank, step)"""
    found = _told_units(window)
    ran = pieces(window)
    return found or ({PIECES: ran} if ran is not None else {})


def _told_units(window: Window) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for kind, told in window.events.by_kind.items():
        if not kind.startswith(PREFIX):
            continue
        column = told.step - window.first_step
        known = np.isin(told.rank, window.ranks) & (column >= 0) & (column < window.num_steps)
        known &= np.isfinite(told.value) & (told.value >= 0)
        if known.any():
            at = (np.searchsorted(window.ranks, told.rank[known]), column[known])
            table, is_told = np.zeros(window.step_s.shape), np.zeros(window.step_s.shape, np.bool_)
            np.add.at(table, at, told.value[known])
            is_told[at] = True
            found[kind.removeprefix(PREFIX)] = np.where(is_told, table, np.nan)
    return found


def explain(window: Window, *, but: str = "") -> Explained | None:
    """What the work of the window explains, without units that begin with `but`; None without work that differs."""
    units = {
        name: table
        for name, table in work_units(window).items()
        if not (but and name.startswith(but)) and _spread(table[:, window.usable]) > MIN_SPREAD
    }
    if not units:
        return None
    classes = work_classes(window.topology, window.ranks)
    factor = np.ones((len(WORKED), *window.step_s.shape))
    amounts = np.stack([table / np.nanmean(table) for table in units.values()])
    lost = np.zeros((len(units), int(classes.max()) + 1))
    explained: list[float] = []
    for place, phase in enumerate(WORKED):
        if phase not in window.phases:
            continue
        times = window.self_s[window.phases.index(phase)]
        for number in np.unique(classes):
            rows = np.flatnonzero(classes == number)
            fit = _fit(times[rows], amounts[:, rows], usable=window.usable)
            if fit is None:
                continue
            factor[place, rows] = fit.factor
            lost[:, number] += fit.lost_s
            explained.append(fit.explained)
    if not explained:
        return None
    worst = lost[:, int(lost.sum(axis=0).argmax())]
    balance = Balance(
        lost_s=float(worst.sum()),
        by_unit={name: float(part) for name, part in zip(units, worst, strict=True)},
        explained=float(np.median(explained)),
    )
    return Explained(factor=factor, balance=balance)


def phase_factors(explained: Explained | None, window: Window, phases: Sequence[str]) -> Floats:
    """Expected over usual time of each phase, mean over the usable steps. (phase, rank)"""
    factors = np.ones((len(phases), len(window.ranks)))
    if explained is not None and window.usable.any():
        for place, phase in enumerate(WORKED):
            if phase in phases:
                factors[phases.index(phase)] = explained.factor[place][:, window.usable].mean(axis=1)
    return factors


def late_by_machine(explained: Explained | None, window: Window, classes: Ints) -> Floats:
    """Share of each rank's lateness beyond its peers, step by step, that its work does not explain. (rank,)"""
    if explained is None or not window.usable.any():
        return np.ones(len(window.ranks))
    raw = np.zeros((int(window.usable.sum()), len(window.ranks)))
    usual = raw.copy()
    for place, phase in enumerate(WORKED):
        if phase in window.phases:
            times = window.self_s[window.phases.index(phase)][:, window.usable].T
            raw += times
            usual += times / explained.factor[place][:, window.usable].T
    before = np.maximum(np.nan_to_num(raw - peer_medians(raw, classes)), 0.0).sum(axis=0)
    after = np.maximum(np.nan_to_num(usual - peer_medians(usual, classes)), 0.0).sum(axis=0)
    return np.where(before > 0, np.clip(after / np.maximum(before, 1e-12), 0.0, 1.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    factor: Floats
    lost_s: Floats
    explained: float


def _fit(times: Floats, amounts: Floats, *, usable: Bools) -> _Fit | None:
    """One class in one phase; times (rank, step), amounts (unit, rank, step)."""
    known = np.isfinite(times) & np.isfinite(amounts).all(axis=0) & usable & (times > 0)
    if known.sum() < MIN_SAMPLES or known.any(axis=1).sum() < 2:
        return None
    slopes = _least_deviations(amounts[:, known], times[known])
    line = slopes[0] + np.tensordot(slopes[1:], amounts, axes=1)
    usual = float(np.median(line[known]))
    # Judged where the work differs, be it that of one rank alone, and by how much: what all others' work strays by is
    # many samples of mere noise.
    moved = known & (np.abs(line - usual) > MIN_SPREAD * usual)
    if usual <= 0 or not moved.any():
        return None
    weight = np.abs(line[moved] - usual)
    before = _weighted_median(np.abs(times[moved] - np.median(times[known])), weight)
    after = _weighted_median(np.abs(times[moved] - line[moved]), weight)
    if after > (1 - MIN_EXPLAINED) * before:
        return None
    factor = np.where(np.isfinite(line), line / usual, 1.0)
    factor = np.clip(factor, 1 / MAX_FACTOR, MAX_FACTOR)
    return _Fit(factor=factor, lost_s=_lost(slopes, amounts, known), explained=1 - after / max(before, 1e-12))


def _weighted_median(values: Floats, weight: Floats) -> float:
    """The value up to which half of the weight lies."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(reached, 0.5 * reached[-1])])


def _lost(slopes: Floats, amounts: Floats, known: Bools) -> Floats:
    """Expected time of the rank with most work beyond the mean, per step, split over the units. (unit,)"""
    parts = np.where(known, slopes[1:, None, None] * amounts, np.nan)
    steps = np.flatnonzero(known.sum(axis=0) > 1)
    if not len(steps):
        return np.zeros(len(amounts))
    parts = parts[:, :, steps]
    most = np.nan_to_num(parts.sum(axis=0), nan=-np.inf).argmax(axis=0)
    top = np.take_along_axis(parts, most[None, None, :], axis=1)[:, 0]
    return np.asarray((top - np.nanmean(parts, axis=1)).mean(axis=1))


def _least_deviations(amounts: Floats, times: Floats) -> Floats:
    """Intercept and slopes ≥ 0 of the line through most points; amounts (unit, sample)."""
    columns = np.concatenate([np.ones((1, amounts.shape[1])), amounts])
    active = list(range(len(columns)))
    slopes = np.zeros(len(columns))
    while active:
        part = _reweighted(columns[active], times)
        # No time below zero without work: so nothing is explained beyond proportion.
        negative = [at for at, value in zip(active, part, strict=True) if value < 0]
        if not negative:
            slopes[active] = part
            return slopes
        active = [at for at in active if at not in negative]
    slopes[0] = float(np.median(times))
    return slopes


def _reweighted(columns: Floats, times: Floats) -> Floats:
    weight = np.ones(len(times))
    part = np.zeros(len(columns))
    floor = 1e-3 * float(np.median(times))
    for _ in range(ROUNDS):
        left = (columns * weight) @ columns.T
        part = np.linalg.pinv(left) @ ((columns * weight) @ times)
        weight = 1.0 / np.maximum(np.abs(times - part @ columns), floor)
    return np.asarray(part)


def _spread(values: Floats) -> float:
    """Relative spread of what was reported, 0 of nothing."""
    seen = values[np.isfinite(values)]
    if seen.size < 2 or np.median(seen) <= 0:
        return 0.0
    return float(np.std(seen) / np.mean(seen))
