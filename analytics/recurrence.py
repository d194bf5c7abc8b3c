"""Faults that come and go: bouts of one GPU in a day, more of them than chance would bring.

A bout is one stretch of windows in which a rank was suspected; a lasting fault is one bout however long. Bouts by
chance are counted on the other ranks of the job, with one rank's worth of what the detectors' false-alarm budget
allows; a rank recurs when so many bouts in a day would come by chance to any rank of the job once in a hundred
days (Poisson).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argus.analytics.baseline import DAY_S, FALSE_ALARMS_PER_DAY, window_seconds
from argus.analytics.cost import BAD_SHARE, BY_ITSELF, GAIN
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import GONE_WINDOWS, RECURS, is_recurring
from argus.analytics.robust import vote_probability
from argus.analytics.symptom import RankSymptom
from argus.analytics.view import Digest, View

FALSE_PER_DAY = 0.01
"""Incidents of this sort a healthy job may have in a day."""

MIN_BOUTS = 3
"""Twice is chance twice."""

MAX_BOUTS = 2000
"""Bouts remembered of an attempt, the latest; beyond it a day's noise would be kept, not its faults."""

MAX_SHOWN = 20
"""Bouts whose numbers stand for the rest."""


@dataclass(frozen=True, kw_only=True)
class Bout:
    """Windows `first_window` to `last_window` in which a rank was suspected; `symptom` is the costliest."""

    rank: int
    attempt: int
    first_window: int
    last_window: int
    since_s: float
    until_s: float
    num: int
    symptom: RankSymptom


def extended(
    bouts: Sequence[Bout], symptoms: Iterable[RankSymptom], *, attempt: int, window: int, now_s: float
) -> tuple[Bout, ...]:
    """The bouts with a window's symptoms added, those of more than a day ago left out.

    So many quiet windows as end an incident end a bout: were it longer, each bout would open one and none recur.
    """
    kept = [bout for bout in bouts if bout.until_s > now_s - DAY_S]
    last = {bout.rank: place for place, bout in enumerate(kept) if bout.attempt == attempt}
    for symptom in symptoms:
        if not symptom.is_vote:
            continue
        place = last.get(symptom.rank, -1)
        if place >= 0 and window - kept[place].last_window <= GONE_WINDOWS:
            kept[place] = _longer(kept[place], symptom, window=window, now_s=now_s)
        else:
            kept.append(
                Bout(
                    rank=symptom.rank,
                    attempt=attempt,
                    first_window=window,
                    last_window=window,
                    since_s=now_s,
                    until_s=now_s,
                    num=1,
                    symptom=symptom,
                )
            )
    return tuple(kept[-MAX_BOUTS:])


def _longer(bout: Bout, symptom: RankSymptom, *, window: int, now_s: float) -> Bout:
    worst = max(bout.symptom, symptom, key=lambda each: each.impact_s)
    return replace(bout, last_window=window, until_s=now_s, num=bout.num + 1, symptom=worst)


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Bouts of one rank in a day beside what chance brings; `share` of the day's windows were bad."""

    bouts: tuple[Bout, ...]
    expected: float
    share: float

    @property
    def symptoms(self) -> tuple[RankSymptom, ...]:
        """The latest bouts' costliest windows, oldest first."""
        return tuple(bout.symptom for bout in self.bouts[-MAX_SHOWN:])

    @property
    def has_come_to_stay(self) -> bool:
        """Whether the newest bout is longer than all the others together."""
        return 2 * self.bouts[-1].num > sum(bout.num for bout in self.bouts)


def recurrences(view: View, bouts: Sequence[Bout]) -> dict[int, Recurrence]:
    """Ranks with more bouts than chance brings; `bouts` are those of the last day."""
    digest = view.digest or (view.past[-1] if view.past else None)
    if digest is None or view.is_lone:
        return {}
    by_rank: dict[int, list[Bout]] = defaultdict(list)
    for bout in bouts:
        if bout.until_s > view.now_s - DAY_S:
            by_rank[bout.rank].append(bout)
    num_ranks, total = len(digest.ranks), sum(map(len, by_rank.values()))
    first_s = min((bout.since_s for mine in by_rank.values() for bout in mine), default=view.now_s)
    seen_s = max((digest.index + 1) * window_seconds(digest), view.now_s - first_s)
    chance = chance_per_day(digest) * min(seen_s / DAY_S, 1.0)
    found = {}
    for rank, mine in by_rank.items():
        expected = (total - len(mine) + chance) / max(num_ranks, 1)
        if len(mine) >= needed(expected, num_ranks=num_ranks):
            found[rank] = _recurrence(view, digest, mine, expected=expected)
    return found


def _recurrence(view: View, digest: Digest, mine: Sequence[Bout], *, expected: float) -> Recurrence:
    ordered = tuple(sorted(mine, key=lambda bout: (bout.since_s, bout.first_window)))
    lasted_s = max(view.now_s - ordered[0].since_s, window_seconds(digest), 1e-9)
    bad_s = sum(bout.num for bout in ordered) * window_seconds(digest)
    return Recurrence(bouts=ordered, expected=expected, share=min(bad_s / lasted_s, 1.0))


def chance_per_day(digest: Digest) -> float:
    """Windows a day in which the budget lets one rank be suspected by chance."""
    window_s = window_seconds(digest)
    if window_s <= 0:
        return 0.0
    tests, per_day = len(digest.phases) + 1, DAY_S / window_s
    once = vote_probability(
        budget_per_day=FALSE_ALARMS_PER_DAY, tests_per_day=tests * per_day * len(digest.ranks), rho=0.0
    )
    return once * tests * per_day


def needed(expected: float, *, num_ranks: int) -> int:
    """Fewest bouts that come by chance to any of the ranks less often than `FALSE_PER_DAY`.

    >>> needed(0.01, num_ranks=8), needed(2.0, num_ranks=8)
    (3, 8)
    """
    term = below = math.exp(-expected)
    count = 0
    while num_ranks * max(1.0 - below, 0.0) > FALSE_PER_DAY or count + 1 < MIN_BOUTS:
        count += 1
        term *= expected / count
        below += term
        if count > 10 * (expected + 10):
            break
    return count + 1


def known_again(incidents: Iterable[Incident], found: Mapping[int, Recurrence]) -> dict[int, Recurrence]:
    """Those of whom an open incident says already that they come and go."""
    known = {r for i in incidents if i.status == "open" and is_recurring(i) for r in i.cause.suspects}
    return {rank: one for rank, one in found.items() if rank in known}


def as_recurring(cause: Cause, found: Mapping[int, Recurrence]) -> Cause:
    """The cause of a rank, or of ranks of one host, that come and go: since its newest bout, its cost spread over all
    windows, its bouts as evidence.

    The bouts before were told or were too few to be. A bout longer than all the others together has come to stay: the
    cause as it is.
    """
    is_one = len(cause.suspects) == 1 or cause.scope.startswith("host:")
    each = [found[rank] for rank in cause.suspects if rank in found] if is_one else []
    mine = max(each, key=lambda one: one.share, default=None)
    if mine is None or len(each) < len(cause.suspects) or mine.share <= 0 or mine.has_come_to_stay:
        return cause
    told = Evidence(name=RECURS, value=float(len(mine.bouts)), baseline=mine.expected, note="in a day")
    bad = Evidence(name=BAD_SHARE, value=mine.share, unit="ratio", note="of the windows since the first bout")
    return replace(
        cause,
        s_per_step=cause.s_per_step * mine.share,
        share_of_step=cause.share_of_step * mine.share,
        onset_step=max(cause.onset_step, mine.bouts[-1].symptom.onset_step),
        evidence=(*(_spread(item, mine.share) for item in cause.evidence), told, bad),
    )


def _spread(item: Evidence, share: float) -> Evidence:
    """What a replay found, over all windows; any other number as it was measured."""
    return replace(item, value=item.value * share) if item.name in (GAIN, BY_ITSELF) else item
