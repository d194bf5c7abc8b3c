"""What stands out in a recording too short for windows to vote: the steps vote instead."""

from __future__ import annotations

from math import comb

import numpy as np

from argus.analytics.blame import NEGLIGIBLE_S, airport_shares
from argus.analytics.digest import own_series
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.view import Digest
from argus.analytics.waits import Waits
from argus.analytics.window import Bools, Floats, Ints, Window

CHANCE = 0.01
"""How often a healthy recording may show any rank as the slowest of so many of its steps."""

GROSS_RATIO, GROSS_SHARE = 1.5, 0.08
"""With too few steps to vote only a gross excess is named: half as much again, and 8 % of the step."""

AGREED_RATIO, AGREED_SHARE = 1.06, 0.04
"""Where own work and arrivals agree in most steps less is named: half of the gross share, and own work longer by 0.6 of
the 10 % that is to be found among few ranks."""

SURE = 5.0
"""Standard errors, by the recording's own steps, that own work must be longer by: few steps know their spread badly."""

LEAD = 1.5
"""Among too few steps the rank waited for must cost half as much again as the next."""


def excludes_chance(*, num_steps: int, num_ranks: int) -> bool:
    """Whether a rank that is the slowest of all these steps is rarely so by chance.

    >>> excludes_chance(num_steps=4, num_ranks=4), excludes_chance(num_steps=5, num_ranks=4)
    (False, True)
    """
    return num_ranks >= 2 and num_ranks * (1 / num_ranks) ** num_steps <= CHANCE


def repeats(excess: Floats) -> Bools | None:
    """Ranks that have the largest excess (step, rank) in more steps than chance allows. (rank,)

    None if there are too few steps for chance to be excluded at all.

    >>> repeats(np.array([[0.0, 1.0, 0.2, 0.1]] * 6)).tolist()
    [False, True, False, False]
    """
    seen = excess[np.isfinite(excess).all(axis=1)]
    steps, ranks = seen.shape
    if not excludes_chance(num_steps=steps, num_ranks=ranks):
        return None
    is_any = seen.max(axis=1, initial=0.0) > 0  # of equal ranks none is the largest
    wins = np.bincount(seen[is_any].argmax(axis=1), minlength=ranks)
    return np.asarray(wins >= _needed(steps, ranks))


def _needed(steps: int, ranks: int) -> int:
    """Fewest wins that any of `ranks` equal ranks reaches with at most `CHANCE`."""
    share, tail = 1 / ranks, 0.0
    for wins in range(steps, -1, -1):
        tail += comb(steps, wins) * share**wins * (1 - share) ** (steps - wins)
        if ranks * tail > CHANCE:
            return wins + 1
    return 0


def stands_out(values: Floats, classes: Ints, *, deviation: Floats, share: Floats) -> Bools:
    """Ranks whose `values` (rank, step) exceed their peers' lastingly, or grossly in few steps. (rank,)

    `deviation` = log of got over peers, `share` = excess as share of the step, both over the window.
    """
    by_step = values.T
    peers = peer_medians(by_step, classes)
    lasting = repeats(by_step - peers)
    if lasting is not None:
        return lasting
    return np.asarray(
        (np.nan_to_num(deviation) >= np.log(GROSS_RATIO)) & (np.nan_to_num(share) >= GROSS_SHARE)
    )


def agreed(window: Window, waits: Waits, digest: Digest) -> Bools:
    """The rank that is costliest by arrival and by own work, both in more steps than chance allows. (rank,)

    Each measure alone must be gross in a recording without a past; two that agree need not be.
    """
    steps, num = window.steps[window.usable], len(digest.ranks)
    named = np.zeros(num, np.bool_)
    late_s = _arrival_cost(waits, num_ranks=num, steps=steps)
    own_s = own_series(window)[:, window.usable].T
    peers_s = peer_medians(own_s, work_classes(window.topology, window.ranks))
    late, work = repeats(late_s), repeats(own_s - peers_s)
    if late is None or work is None:
        return named
    named[late_s.sum(axis=0).argmax()] = True
    ratio = np.maximum(np.log(AGREED_RATIO), _own_limit(own_s, peers_s))
    named &= late & work & (np.nan_to_num(digest.own_dev) >= ratio)
    return np.asarray(named & (np.nan_to_num(digest.late_share) >= AGREED_SHARE))


def _own_limit(own_s: Floats, peers_s: Floats) -> Floats:
    """Log ratio of own work over the peers', both (step, rank), that a rank's own steps explain as chance, infinite if too
    few. (rank,)"""
    if len(own_s) < 2:
        return np.full(own_s.shape[1], np.inf)
    error_s = (own_s - peers_s).std(axis=0, ddof=1) / np.sqrt(len(own_s))
    usual_s = np.maximum(peers_s.mean(axis=0), NEGLIGIBLE_S)
    return np.asarray(np.nan_to_num(np.log1p(SURE * error_s / usual_s), nan=np.inf))


def costliest_arrival(waits: Waits, *, ranks: Ints, steps: Ints, step_s: float) -> Bools:
    """The one rank whose late arrivals cost the others most, in most steps or by far. (rank,)

    By arrival alone: in a short recording what made a rank late may lie before it.
    """
    cost = _arrival_cost(waits, num_ranks=len(ranks), steps=steps)
    total = cost.sum(axis=0)
    order = np.argsort(total)
    named = np.zeros(len(ranks), np.bool_)
    if len(ranks) < 2 or not len(steps):
        return named
    lasting = repeats(cost)
    first, second = order[-1], order[-2]
    is_first = bool(lasting[first]) if lasting is not None else bool(total[first] >= LEAD * total[second])
    share = total[first] / (len(ranks) - 1) / len(steps) / step_s
    named[first] = is_first and share >= GROSS_SHARE
    return named


def _arrival_cost(waits: Waits, *, num_ranks: int, steps: Ints) -> Floats:
    """Waiting of all others by the rank they waited for, split fairly among the late. (step, rank)"""
    calls, cost = waits.calls, np.zeros((len(steps), num_ranks))
    counted = np.isin(calls.step, steps) & ~calls.one_way
    for size in np.unique(calls.size[counted]):
        which = np.flatnonzero((calls.size == size) & counted)
        rows = calls.first[which][:, None] + np.arange(size)
        step = np.searchsorted(steps, calls.step[which])[:, None] + 0 * rows
        np.add.at(cost, (step, calls.rank[rows]), airport_shares(calls.entry_s[rows]))
    return cost
