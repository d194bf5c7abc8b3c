"""What earlier windows say is normal, and how far from it a healthy job strays within a day's budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.robust import Noise, at, matrix, noise_of, tail_point, tail_probability, vote_probability
from argus.analytics.view import Digest
from argus.analytics.window import Bools, Floats

DAY_S = 86_400.0

MIN_WINDOW_S = 0.1
"""A window is taken to last at least this long when windows per day are counted."""

FALSE_ALARMS_PER_DAY = 0.1
"""Incidents a healthy run may show by chance: one in ten days, for every detector."""

MIN_COVERAGE = 0.9
"""Below nine tenths of the rank-steps a window accuses nobody: missing ranks must not read as fast ones."""


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """Deviations (item,) against their limits; `significance` = −log10 of such findings per healthy day."""

    exceeds: Bools
    limit: Floats
    scale: Floats
    significance: Floats


def outliers(
    now: Floats,
    history: Floats,
    *,
    tests: int,
    window_s: float,
    budget_per_day: float,
    rho: float | None = None,
    is_lone: bool = False,
) -> Outlier:
    """Which of `now` (item,) healthy noise of `history` (window, item) explains too rarely.

    `tests` = comparisons made in one window, `window_s` = its length. In a lone window, where `now` is all
    there is, the largest deviation does not vouch for itself.
    """
    noise: Noise = noise_of(history, now=_without_largest(now) if is_lone else now)
    tests_per_day = tests * DAY_S / max(window_s, MIN_WINDOW_S)
    chance = vote_probability(
        budget_per_day=budget_per_day, tests_per_day=tests_per_day, rho=noise.rho if rho is None else rho
    )
    limit = noise.scale * tail_point(chance, noise.dof)
    deviations = np.nan_to_num(now / noise.scale)
    expected = [tests_per_day * tail_probability(max(float(d), 0.0), noise.dof) for d in deviations]
    return Outlier(
        exceeds=np.nan_to_num(now, nan=-np.inf) > limit,
        limit=limit,
        scale=noise.scale,
        significance=-np.log10(np.maximum(expected, 1e-300)),
    )


VOTING_WINDOWS = 2
"""Newest windows whose doubts still bar: afterwards they were noise, and noise must be learnt."""


def _without_largest(values: Floats) -> Floats:
    """The values with the largest as NaN."""
    rest = values.copy()
    if np.isfinite(rest).any():
        rest[np.nanargmax(np.abs(rest))] = np.nan
    return rest


def rank_history(past: Sequence[Digest], now: Digest, pick: Callable[[Digest], Floats | None]) -> Floats:
    """`pick` of each past digest as (window, rank) over the ranks of `now`, NaN where a rank was suspected."""
    rows = []
    for age, digest in enumerate(past, start=-len(past)):
        values = pick(digest)
        if values is None:
            continue
        row = np.full(len(now.ranks), np.nan)
        if np.array_equal(digest.ranks, now.ranks):
            row[:] = values
        else:
            _, here, there = np.intersect1d(now.ranks, digest.ranks, return_indices=True)
            row[here] = values[there]
        barred = (*digest.flagged, *digest.doubted) if age >= -VOTING_WINDOWS else digest.flagged
        for rank in barred:
            if (place := at(now.ranks, rank)) >= 0:
                row[place] = np.nan
        rows.append(row)
    return matrix(rows, len(now.ranks))


def phase_of(digest: Digest, phase: str, values: Callable[[Digest], Floats]) -> Floats | None:
    """Row of `phase` in a (phase, rank) array of a digest, None if it had no such phase."""
    return values(digest)[digest.phases.index(phase)] if phase in digest.phases else None


def group_history(past: Sequence[Digest], group: str) -> Floats:
    """Transfer time per step of a group in the windows in which it was not suspected. (window,)"""
    values = [
        float(digest.transfer_sum_s[digest.groups.index(group)])
        for age, digest in enumerate(past, start=-len(past))
        if group in digest.groups
        and group not in digest.flagged_groups
        and not (age >= -VOTING_WINDOWS and group in digest.doubted_groups)
    ]
    return np.array([value for value in values if np.isfinite(value)])


def baseline_step_s(past: Sequence[Digest]) -> float | None:
    """Median step time of the windows in which nobody was suspected, None if there is none."""
    clean = [d.typical_step_s for d in past if d.is_clean and np.isfinite(d.typical_step_s)]
    return float(np.median(clean)) if clean else None


def baseline_own_s(past: Sequence[Digest]) -> float | None:
    """Median self time of a step over clean windows and ranks, None if there is none."""
    clean = [float(np.nanmedian(d.own_s)) for d in past if d.is_clean and np.isfinite(d.own_s).any()]
    return float(np.median(clean)) if clean else None


def window_seconds(digest: Digest, *, is_lone: bool = False) -> float:
    """How long the window lasted, from its steps; a lone one has the false-alarm budget of a whole day."""
    if is_lone:
        return DAY_S
    step = digest.typical_step_s
    return digest.num_steps * (step if np.isfinite(step) else 0.0)


def is_comparable(digest: Digest, min_coverage: float = MIN_COVERAGE) -> bool:
    """Enough of the window was seen, and half of its steps may be compared."""
    return digest.coverage >= min_coverage and 2 * digest.num_usable >= digest.num_steps
