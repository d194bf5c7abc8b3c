"""L2: a rank the others wait for because it enters their collectives late by its own doing.

The suspect of one collective is the last to enter and has the *shortest* collective (incidents.md §2.0); the
wait graph over all groups hands blame back to where the lateness arose, and the sums over a window are
compared with those of ranks doing the same work.
"""

from __future__ import annotations

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    Outlier,
    align_past,
    is_comparable,
    outliers,
    rank_history,
    window_seconds,
)
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.hiccup import late_by_hiccup
from argus.analytics.lone import agreed, costliest_arrival
from argus.analytics.view import Digest, View
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Bools, Floats

NEEDS = "slow_rank"

VICTIM_SHARE = 0.25
"""A victim waited for the culprit at least this share of what the longest waiting one did."""


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_share: float = 0.02,  # waiting below 2 % of the step is worth nobody's time
    min_votes: int = 2,  # steps: what happened once, however badly, does not last
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """A culprit finding per rank others wait for, each followed by one with its victims."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    waits = view.waits or waits_of(view.window)
    named = np.nan_to_num(digest.late_share) >= min_share
    named &= waits.votes * waits.num_usable >= min(min_votes, waits.num_usable / 2)
    if not named.any() and not view.is_lone:
        return ()
    test = _lateness(view, digest, budget=false_alarms_per_day, asked=named)
    found: list[Finding] = []
    named &= test.exceeds
    if named.any():
        named &= ~late_by_hiccup(view.window, digest)
    if view.is_lone:
        steps = view.window.steps[view.window.usable]
        named = costliest_arrival(waits, ranks=digest.ranks, steps=steps, step_s=digest.typical_step_s)
        named |= agreed(view.window, waits, digest)
    for row in np.flatnonzero(named):
        rank = int(digest.ranks[row])
        victims, seconds, group = victims_of(waits, rank, view.window.groups)
        found.append(_culprit(view, digest, int(row), float(test.significance[row]), group, waits))
        if victims:
            found.append(_victims(view, digest, rank, victims, seconds, group))
    return tuple(found)


def _lateness(view: View, digest: Digest, *, budget: float, asked: Bools) -> Outlier:
    """Lateness against that of clean windows, and against the present one's own unsteadiness. (rank,)"""
    past = align_past(view.past, digest)
    return outliers(
        digest.late_share,
        rank_history(past, len(digest.ranks), lambda old: old.late_share if old.sees_waits else None),
        tests=len(digest.ranks),
        window_s=window_seconds(digest, is_lone=view.is_lone),
        budget_per_day=budget,
        is_skewed=True,
        unsteady=digest.unsteady_s / digest.typical_step_s,
        is_lone=view.is_lone,
        learns_level=True,
        asked=None if view.is_lone else asked,
    )


def victims_of(waits: Waits, rank: int, groups: tuple[str, ...]) -> tuple[tuple[int, ...], float, str | None]:
    """Who waited for `rank`, how long on average per step, and the group they mostly waited in."""
    victims, group, edge_s = waits.victims(rank)
    if not len(victims):
        return (), 0.0, None
    ranks, where = np.unique(victims, return_inverse=True)
    seconds: Floats = np.bincount(where.reshape(-1), weights=edge_s).astype(np.float64)
    chosen = seconds >= VICTIM_SHARE * seconds.max()
    by_group = np.bincount(group, weights=edge_s)
    return tuple(int(r) for r in ranks[chosen]), float(seconds[chosen].mean()), groups[int(by_group.argmax())]


def _culprit(
    view: View, digest: Digest, row: int, significance: float, group: str | None, waits: Waits
) -> Finding:
    rank = int(digest.ranks[row])
    others = np.delete(digest.late_s, row)
    usual = float(np.nanmedian(others)) if np.isfinite(others).any() else 0.0
    late = float(digest.late_s[row])
    by_durations = float(np.mean(waits.calls.by_durations)) if len(waits.calls.first) else 0.0
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_wait",
        kind="wait",
        role="culprit",
        ranks=(rank,),
        nodes=(f"rank:{rank}",),
        group=group,
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=late / usual if usual > 0 else None,
        effect_s_per_step=late,
        share_of_step=_share(digest, row),
        significance=significance,
        evidence=(
            Evidence(name="caused_wait_s", value=late, unit="s", baseline=usual),
            Evidence(name="last_share", value=last_share(waits, rank), note="calls it entered last"),
            Evidence(
                name="step_votes",
                value=float(waits.votes[row]),
                note="steps in which it cost most, or half of it",
            ),
            Evidence(name="by_durations", value=by_durations, note="calls judged without common clocks"),
        ),
    )


def _share(digest: Digest, row: int) -> float:
    """Waiting caused beyond that of its peers, or all of it where it has none, as share of the step."""
    share = float(digest.late_share[row])
    return share if np.isfinite(share) else float(digest.late_s[row] / digest.typical_step_s)


def last_share(waits: Waits, rank: int) -> float:
    """Share of the calls a rank took part in that it entered last, those without real waiting left out."""
    took_part = np.zeros(len(waits.last_rank), np.bool_)
    took_part[waits.calls.call[waits.members == rank]] = True
    return float((waits.last_rank[took_part] == rank).mean()) if took_part.any() else 0.0


def _victims(
    view: View, digest: Digest, culprit: int, victims: tuple[int, ...], seconds: float, group: str | None
) -> Finding:
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_wait",
        kind="wait",
        role="victim",
        ranks=victims,
        nodes=(*(f"rank:{rank}" for rank in victims), f"rank:{culprit}"),
        group=group,
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        effect_s_per_step=seconds,
        share_of_step=seconds / digest.typical_step_s,
        evidence=(Evidence(name="waited_s", value=seconds, unit="s", note=f"for rank {culprit}"),),
    )
