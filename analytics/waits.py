"""Who waited for whom: blame for the waiting of a window, walked back to the rank that was itself late.

Every collective of every group is one node of one graph, visited in the order of the step. A rank that
enters late because it had itself been held up in another group's call hands the blame on to the rank that
held it up; only lateness out of its own work stays with it; lateness that is neither (a slow transfer of another
group) accuses nobody (argus-paper.md §9 row 20, incidents.md §2.0).

The waiting of one call is split like the cost of a runway (Shapley value of the airport game): while k
members wait and n − k have not come, those n − k share the blame, so two equally late ranks get half each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls, complete_calls
from argus.analytics.ordering import numbered, packed
from argus.analytics.peers import work_classes
from argus.analytics.robust import grouped_median
from argus.analytics.rounds import rounds, rows_of
from argus.analytics.window import Floats, Ints, Window

NEGLIGIBLE_S = 1e-9
"""Below the clock's own unit nothing is late."""

VOTE = 0.5
"""A step votes for every rank that cost it at least half of what the costliest did."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """The waiting of a window, seconds per usable step where nothing else is said.

    `late_s` (rank,) = how long the other ranks waited on average because of this one; `waited_s` (rank,) = how
    long this rank stood waiting; `votes` (rank,) = share of the counted steps that vote for the rank.
    Call arrays (call,): `last_rank` is the last to enter, `max_wait_s` the longest wait for it, `guilty` the
    rank that kept it waiting in the end, −1 if nobody's own work did. Row arrays (row,) as in `calls`: `members` =
    global rank, `wait_s` = how long it stood waiting in all, 0 in steps that are not counted. `num_usable` =
    counted steps.
    """

    late_s: Floats
    waited_s: Floats
    votes: Floats
    calls: Calls
    last_rank: Ints
    max_wait_s: Floats
    guilty: Ints
    members: Ints
    wait_s: Floats
    num_usable: int

    @property
    def skipped(self) -> Mapping[str, int]:
        """Calls that could not be used, by reason."""
        return self.calls.skipped

    def victims(self, culprit: int) -> tuple[Ints, Ints, Floats]:
        """Who stood waiting for `culprit` and in which group, with seconds per usable step. Three of (edge,)"""
        calls = self.calls
        rows = rows_of(calls, np.flatnonzero(self.guilty == culprit))
        rows = rows[(self.wait_s[rows] > NEGLIGIBLE_S) & (self.members[rows] != culprit)]
        victim, group = self.members[rows], calls.group[calls.call[rows]]
        number, count = numbered(packed(victim, group))
        total = np.bincount(number, weights=self.wait_s[rows], minlength=count)
        _, one = np.unique(number, return_index=True)
        return victim[one], group[one], np.asarray(total / max(self.num_usable, 1), np.float64)


def waits_of(window: Window) -> Waits:
    """The wait graph of one window, in seconds per usable step."""
    calls = complete_calls(window)
    ledger = _Ledger(calls, window)
    for turn in rounds(calls):
        ledger.post(turn.posts)
        for size in np.unique(calls.size[turn.calls]):
            ledger.visit(turn.calls[calls.size[turn.calls] == size])
    return ledger.waits()


def waiting_steps(window: Window) -> Ints:
    """Usable steps whose waiting is their own: after a mark or a disturbance ranks leave unevenly."""
    calm = np.append(True, window.usable[:-1])
    return np.asarray(window.steps[window.usable & calm])


def own_excess(calls: Calls, window: Window) -> Floats:
    """Time from the last release to the entry, beyond the median of ranks doing the same work. (row,)

    Where the release is unknown (first call of the window): how much later than the call's median entry.
    """
    classes = work_classes(window.topology, window.ranks)
    known = np.flatnonzero(np.isfinite(calls.work_s))
    work = calls.work_s[known]
    same, count = numbered(
        packed(calls.step[calls.call[known]], classes[calls.rank[known]], calls.place[known])
    )
    excess = _after_median(calls)
    if len(known):
        excess[known] = work - grouped_median(work, same, count)[same]
    return excess


def _after_median(calls: Calls) -> Floats:
    """Entry minus the lower median entry of its call, for rows whose work is not known. (row,)"""
    after = np.zeros(len(calls.call))
    unknown = np.zeros(len(calls.first), np.bool_)
    unknown[calls.call[~np.isfinite(calls.work_s)]] = True
    rows = np.flatnonzero(unknown[calls.call])
    if len(rows):
        order = rows[np.lexsort((calls.entry_s[rows], calls.call[rows]))]
        which, first, size = np.unique(calls.call[order], return_index=True, return_counts=True)
        middle = np.zeros(len(calls.first))
        middle[which] = calls.entry_s[order][first + (size - 1) // 2]
        after[rows] = calls.entry_s[rows] - middle[calls.call[rows]]
    return after


class _Ledger:
    """What each rank's lateness is made of while the calls are visited: its own work since it last stood
    in step with others (`own`), and what it inherited there (`amount`, from `origin`).

    Every step has its own page, (step · rank): what earlier steps left behind lies before the release that
    own work counts from. So all steps are visited at once. Row arrays keep each row's part as it entered.
    """

    def __init__(self, calls: Calls, window: Window) -> None:
        self.num_ranks = n = len(window.ranks)
        self.calls, self.window = calls, window
        self.excess = own_excess(calls, window)
        pages, page = np.unique(calls.step, return_inverse=True)
        self.page = page.reshape(-1) * n
        self.spot = self.page[calls.call] + calls.rank
        size = len(pages) * n
        self.own, self.amount = np.zeros(size), np.zeros(size)
        self.origin = np.full(size, -1)
        self.row_own, self.row_amount = np.zeros(len(self.spot)), np.zeros(len(self.spot))
        self.row_origin = np.full(len(self.spot), -1)
        self.late = np.zeros(size)
        steps = waiting_steps(window)
        self.counts = np.isin(calls.step, steps)
        self.num_usable = len(steps)
        self.last = np.full(len(calls.first), -1)
        self.guilty = np.full(len(calls.first), -1)
        self.max_wait, self.wait = np.zeros(len(calls.first)), np.zeros(len(self.spot))

    def post(self, rows: Ints) -> None:
        """These rows hand over and go on; a rank may have several in a row."""
        for row in _one_per_spot(rows, self.spot):
            self._enter(row)
            stood = row[self.calls.synced[row]]
            self._carry(stood, origin=self._names(stood), amount=self.row_amount[stood] + self.row_own[stood])

    def _enter(self, rows: Ints) -> None:
        spot = self.spot[rows]
        self.own[spot] += self.excess[rows]
        self.row_own[rows] = np.maximum(self.own[spot], 0.0)
        self.row_amount[rows], self.row_origin[rows] = self.amount[spot], self.origin[spot]

    def _names(self, rows: Ints) -> Ints:
        """Whose lateness a row mostly carries on: of a history only the largest part keeps a name."""
        by_itself = self.row_own[rows] >= self.row_amount[rows]
        return np.where(by_itself, self.calls.rank[rows], self.row_origin[rows])

    def _carry(self, rows: Ints, *, origin: Ints, amount: Floats) -> None:
        """Whoever stood still until the end now carries this history."""
        spot = self.spot[rows]
        self.origin[spot], self.amount[spot], self.own[spot] = origin, amount, 0.0

    def visit(self, which: Ints) -> None:
        """Blame the waiting in the calls `which`, all of one size."""
        calls = self.calls
        rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
        one_way = calls.one_way[which]
        self._enter(rows[~calls.source[rows]])
        entry = calls.entry_s[rows]
        decisive = np.where(one_way[:, None] & ~calls.source[rows], -np.inf, entry)
        last = decisive.argmax(axis=1)
        line = np.arange(len(which))
        leader = rows[line, last]
        wait = np.maximum(decisive[line, last][:, None] - entry, 0.0)
        self.last[which], self.max_wait[which] = calls.rank[leader], wait.max(axis=1)
        stood = calls.synced[rows] & ~(one_way[:, None] & calls.source[rows])
        blame = airport_shares(entry)
        if one_way.any():
            blame[one_way] = 0.0
            blame[one_way, last[one_way]] = wait[one_way].sum(axis=1)
        stood_wait = wait * stood
        blame *= (stood_wait.sum(axis=1) / np.maximum(wait.sum(axis=1), NEGLIGIBLE_S))[:, None]
        self._blame(which, rows, blame, leader=last, entry=entry)
        counted = self.counts[which]
        self.wait[rows[counted]] = stood_wait[counted]
        origin, amount = self._names(leader), self.row_amount[leader] + self.row_own[leader]
        size = stood.sum(axis=1)
        self._carry(rows[stood], origin=np.repeat(origin, size), amount=np.repeat(amount, size))

    def _blame(self, which: Ints, rows: Ints, blame: Floats, *, leader: Ints, entry: Floats) -> None:
        """Charge each member's share to it or to whom it inherited from. `rows` (call, member)"""
        own, origin, amount = self.row_own[rows], self.row_origin[rows], self.row_amount[rows]
        inherited = np.where(origin >= 0, amount - amount.min(axis=1, keepdims=True), 0.0)
        lateness = entry - entry.min(axis=1, keepdims=True)
        explained = own + inherited
        whole = np.maximum(np.maximum(explained, lateness), NEGLIGIBLE_S)
        rank = self.calls.rank[rows]
        at = (np.arange(len(which)), leader)
        known = explained[at] >= 0.5 * lateness[at]
        self.guilty[which] = np.where(known, np.where(own[at] >= inherited[at], rank[at], origin[at]), -1)
        counted = self.counts[which]
        page = self.page[which][counted][:, None]
        part = blame[counted] / whole[counted]
        np.add.at(self.late, page + rank[counted], part * own[counted])
        np.add.at(self.late, page + np.maximum(origin[counted], 0), part * inherited[counted])

    def waits(self) -> Waits:
        """The sums, per usable step."""
        steps = max(self.num_usable, 1)
        others = max(int(np.isfinite(self.window.step_s).any(axis=1).sum()) - 1, 1)
        ranks = self.window.ranks
        by_step = self.late.reshape(-1, self.num_ranks)
        waited = np.bincount(self.calls.rank, weights=self.wait, minlength=self.num_ranks)
        return Waits(
            late_s=by_step.sum(axis=0) / steps / others,
            waited_s=waited / steps,
            votes=_votes(by_step) / steps,
            calls=self.calls,
            last_rank=ranks[self.last],
            max_wait_s=self.max_wait,
            guilty=np.where(self.guilty >= 0, ranks[self.guilty], -1),
            members=ranks[self.calls.rank],
            wait_s=self.wait,
            num_usable=self.num_usable,
        )


def _votes(by_step: Floats) -> Floats:
    """In how many steps each rank cost at least `VOTE` of what the costliest did. `by_step` (step, rank)"""
    costliest = by_step.max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(((by_step >= VOTE * costliest) & (by_step > NEGLIGIBLE_S)).sum(axis=0), np.float64)


def _one_per_spot(rows: Ints, spot: Ints) -> Iterator[Ints]:
    """The rows in turns, none of which has two rows of one rank and step."""
    while len(rows):
        _, first = np.unique(spot[rows], return_index=True)
        if len(first) == len(rows):
            yield rows
            return
        chosen = np.zeros(len(rows), np.bool_)
        chosen[first] = True
        yield rows[chosen]
        rows = rows[~chosen]


def airport_shares(entry: Floats) -> Floats:
    """Each member's share of a call's waiting; entry (call, member), result sums to Σ (max − entry).

    >>> airport_shares(np.array([[0.0, 0.0, 3.0], [0.0, 4.0, 4.0]])).tolist()
    [[0.0, 0.0, 6.0], [0.0, 2.0, 2.0]]
    """
    order = np.argsort(entry, axis=1)
    come = np.take_along_axis(entry, order, axis=1)
    n = entry.shape[1]
    k = np.arange(1, n)
    shares = np.zeros_like(entry)
    shares[:, 1:] = np.cumsum(np.diff(come, axis=1) * k / (n - k), axis=1)
    result = np.empty_like(entry)
    np.put_along_axis(result, order, shares, axis=1)
    return result
