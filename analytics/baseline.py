"""What earlier windows say is normal, and how far from it a healthy job strays within a day's budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from argus.analytics.beside import beside
from argus.analytics.robust import (
    MAX_TAIL,
    Noise,
    at,
    exponential_limit,
    matrix,
    median_of_columns,
    noise_of,
    tail_point,
    tail_probability,
    vote_probability,
)
from argus.analytics.view import Digest, View
from argus.analytics.window import Bools, Floats, Ints

DAY_S = 86_400.0

MIN_WINDOW_S = 0.1
"""A window is taken to last at least this long when windows per day are counted."""

FALSE_ALARMS_PER_DAY = 0.1
"""Incidents a healthy run may show by chance: one in ten days, for every detector."""

MIN_COVERAGE = 0.9
"""Below nine tenths of the rank-steps a window accuses nobody: missing ranks must not read as fast ones."""


EXPONENTIAL_SCALE = 1.53
"""Our spread of exponential noise in units of its mean: its 95th percentile, 3.0, over the normal one's 1.96."""


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """Deviations (item,) against their limits; `significance` = −log10 of such findings per healthy day, where a
    limit is exceeded."""

    exceeds: Bools
    limit: Floats
    scale: Floats
    significance: Floats


MIN_LEVEL = 5
"""Windows before what an item itself used to be is known."""


def outliers(
    now: Floats,
    history: Floats,
    *,
    tests: int,
    window_s: float,
    budget_per_day: float,
    rho: float | None = None,
    is_skewed: bool = False,
    is_lone: bool = False,
    unsteady: Floats | None = None,
    learns_level: bool = False,
    asked: Bools | None = None,
) -> Outlier:
    """Which of `now` (item,) healthy noise of `history` (window, item) explains too rarely.

    `tests` = comparisons made in one window, `window_s` = its length. In a lone window, where `now` is all
    there is, the largest deviation does not vouch for itself. `unsteady` (item,) is what the present window's
    own steps say of the noise of its mean: more than the past knows where the work has become uneven.
    With `learns_level` an item is compared with zero and with its own past, at half the budget each: a lasting
    difference between healthy items is noise around zero, and repeats; how far each strays from its own is much less.
    Only those `asked` for (item,) may exceed, so that of thousands of others some are enough to say how far healthy
    ones stray.
    """
    num, which = len(now), _enough(asked, len(now))
    if which is not None:
        now, history, unsteady = now[which], history[:, which], None if unsteady is None else unsteady[which]
    test = partial(
        _outliers,
        tests_per_day=tests * DAY_S / max(window_s, MIN_WINDOW_S),
        rho=rho,
        is_skewed=is_skewed,
        is_lone=is_lone,
        unsteady=unsteady,
    )
    if learns_level and not is_lone:
        found = _around_both(test, now, history, budget_per_day=budget_per_day)
    else:
        found = test(now, history, budget_per_day=budget_per_day)
    return found if which is None else _among_all(found, which, num)


def _around_both(
    test: Callable[..., Outlier], now: Floats, history: Floats, *, budget_per_day: float
) -> Outlier:
    """The test around zero and around what each item used to be."""
    with beside(history.size) as begin:
        around_zero = begin(lambda: test(now, history, budget_per_day=budget_per_day / 2))
        usual = _levels(history)
        around_own = test(now - usual, history - usual, budget_per_day=budget_per_day / 2)
        return _either(around_zero.result(), around_own, usual)


ENOUGH = 2048
"""Items whose median spread stands for that of all: it is known to half a per cent then."""


def _enough(asked: Bools | None, num: int) -> Ints | None:
    """Those asked for and enough others, drawn by lot, for every n-th would be of one kind; None where it takes all."""
    if asked is None or num <= ENOUGH:
        return None
    others = np.random.default_rng(num).choice(num, ENOUGH, replace=False)
    return np.union1d(np.flatnonzero(asked), others)


def _among_all(some: Outlier, which: Ints, num: int) -> Outlier:
    """The items that were looked at in their places; the others exceed nothing."""
    found = Outlier(
        exceeds=np.zeros(num, np.bool_),
        limit=np.full(num, np.inf),
        scale=np.full(num, np.nan),
        significance=np.zeros(num),
    )
    found.exceeds[which], found.limit[which] = some.exceeds, some.limit
    found.scale[which], found.significance[which] = some.scale, some.significance
    return found


def _levels(history: Floats) -> Floats:
    """What each item used to be, NaN where too few windows tell. (item,)"""
    usual = median_of_columns(history)
    usual[np.isfinite(history).sum(axis=0) < MIN_LEVEL] = np.nan
    return usual


def _either(around_zero: Outlier, around_own: Outlier, usual: Floats) -> Outlier:
    """What exceeds one of two limits, the second counted from each item's own level."""
    return Outlier(
        exceeds=around_zero.exceeds | around_own.exceeds,
        limit=np.fmin(around_zero.limit, usual + around_own.limit),
        scale=np.where(np.isfinite(usual), around_own.scale, around_zero.scale),
        significance=np.maximum(around_zero.significance, around_own.significance),
    )


def _outliers(
    now: Floats,
    history: Floats,
    *,
    budget_per_day: float,
    tests_per_day: float,
    rho: float | None,
    is_skewed: bool,
    is_lone: bool,
    unsteady: Floats | None,
) -> Outlier:
    """The test against one level, zero."""
    noise: Noise = noise_of(history, now=_without_largest(now) if is_lone else now)
    if unsteady is not None:
        noise = replace(noise, scale=np.fmax(noise.scale, unsteady))
    chance = vote_probability(
        budget_per_day=budget_per_day, tests_per_day=tests_per_day, rho=noise.rho if rho is None else rho
    )
    scales = tail_point(chance, noise.dof)
    fitted = exponential_limit(history, chance)
    if is_skewed and not np.isfinite(fitted):
        scales = max(scales, min(-math.log(chance) / EXPONENTIAL_SCALE, MAX_TAIL))
    limit = np.maximum(noise.scale * scales, fitted)
    deviations = np.nan_to_num(now / noise.scale)
    exceeds = np.nan_to_num(now, nan=-np.inf) > limit
    significance = np.zeros(len(now))
    for row in np.flatnonzero(exceeds):
        expected = tests_per_day * tail_probability(max(float(deviations[row]), 0.0), noise.dof)
        significance[row] = -math.log10(max(expected, 1e-300))
    return Outlier(exceeds=exceeds, limit=limit, scale=noise.scale, significance=significance)


VOTING_WINDOWS = 2
"""Newest windows whose doubts still bar: afterwards they were noise, and noise must be learnt."""


def _without_largest(values: Floats) -> Floats:
    """The values with the largest as NaN."""
    rest = values.copy()
    if np.isfinite(rest).any():
        rest[np.nanargmax(np.abs(rest))] = np.nan
    return rest


RECENT_WINDOWS = 2
"""Windows before the newest whose votes count beside its own."""

START_UP_WINDOWS = 2
"""The first windows of an attempt: start-up is uneven in ways no step flag covers."""

MIN_CLEAN = 5
"""Windows without any suspect that suffice to know the noise."""


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """A past digest beside the present one: rows here and there of the ranks both have, rows to leave out."""

    digest: Digest
    here: Ints
    there: Ints
    barred: Ints


def align_past(past: Sequence[Digest], now: Digest) -> tuple[Aligned, ...]:
    """Every past digest on the ranks of `now`, made once for all the rows that are compared.

    Windows with a fault are left out whole where enough others are known, for beside a culprit nobody else is
    ever last and the rest would look quieter than they are; else only the suspect's own numbers are.
    """
    everyone = np.arange(len(now.ranks))
    enough = sum(digest.is_clean for digest in past) >= MIN_CLEAN
    aligned = []
    for age, digest in enumerate(past, start=-len(past)):
        if enough and not digest.is_clean:
            continue
        here = there = everyone
        if digest.ranks.tobytes() != now.ranks.tobytes():
            _, here, there = np.intersect1d(now.ranks, digest.ranks, return_indices=True)
        suspects = (*digest.flagged, *digest.doubted) if age >= -VOTING_WINDOWS else digest.flagged
        rows = [row for rank in suspects if (row := at(now.ranks, rank)) >= 0]
        aligned.append(Aligned(digest=digest, here=here, there=there, barred=np.array(rows, np.int64)))
    return tuple(aligned)


def rank_history(past: Sequence[Aligned], num: int, pick: Callable[[Digest], Floats | None]) -> Floats:
    """`pick` of each past digest as (window, rank) over `num` ranks, NaN where a rank was suspected."""
    rows = []
    for item in past:
        if (values := pick(item.digest)) is None:
            continue
        row = np.full(num, np.nan)
        row[item.here] = values[item.there]
        row[item.barred] = np.nan
        rows.append(row)
    return matrix(rows, num)


def phase_of(digest: Digest, phase: str, values: Callable[[Digest], Floats]) -> Floats | None:
    """Row of `phase` in a (phase, rank) array of a digest, None if it had no such phase."""
    return values(digest)[digest.phases.index(phase)] if phase in digest.phases else None


def path_history(
    past: Sequence[Digest],
    paths: Sequence[str],
    *,
    pick: Callable[[Digest], Floats] = lambda digest: digest.transfer_sum_s,
) -> Floats:
    """Transfer time per step, or what `pick` takes, of some paths in the windows in which they were not suspected. (window, path)"""
    rows = np.full((len(past), len(paths)), np.nan)
    known: tuple[str, ...] | None = None
    for age, digest in enumerate(past, start=-len(past)):
        if digest.paths is not known:  # windows of one job mostly share them
            known, place = digest.paths, {name: n for n, name in enumerate(digest.paths)}
            at = np.array([place.get(name, -1) for name in paths], np.int64)
        row = np.append(pick(digest), np.nan)[at]
        barred = {*digest.flagged_paths, *(digest.doubted_paths if age >= -VOTING_WINDOWS else ())}
        if barred:
            row[[n for n, name in enumerate(paths) if name in barred]] = np.nan
        rows[age] = row
    return rows


def baseline_step_s(past: Sequence[Digest]) -> float | None:
    """Median step time of the windows in which nobody was suspected, None if there is none."""
    clean = [d.typical_step_s for d in past if d.is_clean and np.isfinite(d.typical_step_s)]
    return float(np.median(clean)) if clean else None


def baseline_own_s(past: Sequence[Digest]) -> float | None:
    """Median self time of a step over clean windows and ranks, None if there is none."""
    clean = [float(np.nanmedian(d.own_s)) for d in past if d.is_clean and np.isfinite(d.own_s).any()]
    return float(np.median(clean)) if clean else None


def settled(view: View, now: Digest) -> list[Digest]:
    """Clean windows that may stand for how it was: neither start-up nor so new that votes are still open."""
    return [
        digest
        for digest in view.past
        if digest.is_clean
        and START_UP_WINDOWS <= digest.index < now.index - RECENT_WINDOWS
        and is_comparable(digest)
    ]


def window_seconds(digest: Digest, *, is_lone: bool = False) -> float:
    """How long the window lasted, from its steps; a lone one has the false-alarm budget of a whole day."""
    if is_lone:
        return DAY_S
    step = digest.typical_step_s
    return digest.num_steps * (step if np.isfinite(step) else 0.0)


def is_comparable(digest: Digest, min_coverage: float = MIN_COVERAGE) -> bool:
    """Enough of the window was seen, and half of its steps may be compared."""
    return is_seen(
        digest.coverage, num_usable=digest.num_usable, num_steps=digest.num_steps, least=min_coverage
    )


def is_usual(digest: Digest) -> bool:
    """Whether a window says how fast the job is: no start-up, enough of it seen."""
    known = is_comparable(digest) and bool(np.isfinite(digest.job_step_s).any())
    return digest.index >= START_UP_WINDOWS and known


def is_seen(coverage: float, *, num_usable: int, num_steps: int, least: float = MIN_COVERAGE) -> bool:
    """Whether a window with this share of its rank-steps can be compared."""
    return coverage >= least and 2 * num_usable >= num_steps
