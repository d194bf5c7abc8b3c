"""Who waited for whom: blame for the waiting of a window, walked back to the rank that was itself late.

Every collective of every group is one node of one graph, visited in the order of the step. A rank that
enters late because it had itself been held up in another group's call hands the blame on to the rank that
held it up; only lateness out of its own work stays with it; lateness that is neither (a slow transfer of another
group) accuses nobody (argus-paper.md §9 row 20, incidents.md §2.0).

The waiting of one call is split like the cost of a runway (Shapley value of the airport game): while k
members wait and n − k have not come, those n − k share the blame, so two equally late ranks get half each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from argus.analytics.beside import beside
from argus.analytics.blame import NEGLIGIBLE_S, Ledger
from argus.analytics.calls import Calls, complete_calls
from argus.analytics.ordering import numbered, packed
from argus.analytics.peers import work_classes
from argus.analytics.recalled import recalled
from argus.analytics.robust import grouped_median
from argus.analytics.rounds import rows_of
from argus.analytics.window import Floats, Ints, Window

VOTE = 0.5
"""A step votes for every rank that cost it at least half of what the costliest did."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """The waiting of a window, seconds per usable step where nothing else is said.

    `late_s` (rank,) = how long the other ranks waited on average because of this one, `habit_s` what of that is in most
    steps and not in a few: a rare long pause of any of ten thousand ranks hides what one slow rank costs in every step; `waited_s` (rank,) = how
    long this rank stood waiting; `votes` (rank,) = share of the counted steps that vote for the rank.
    Call arrays (call,): `last_rank` is the last to enter, `max_wait_s` the longest wait for it, `guilty` the
    rank that kept it waiting in the end, −1 if nobody's own work did. Row arrays (row,) as in `calls`: `members` =
    global rank, `wait_s` = how long it stood waiting in all, 0 in steps that are not counted, `excess_s` = own work
    beyond that of ranks doing the same. `num_usable` = counted steps.
    """

    late_s: Floats
    habit_s: Floats
    waited_s: Floats
    votes: Floats
    calls: Calls
    last_rank: Ints
    max_wait_s: Floats
    guilty: Ints
    members: Ints
    wait_s: Floats
    excess_s: Floats
    num_usable: int

    @property
    def voted_s(self) -> Floats:
        """What each rank cost, weighted by the steps that vote for it: one hiccup does not outweigh a habit. (rank,)"""
        return self.late_s * self.votes

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
    calls, steps = complete_calls(window), waiting_steps(window)
    with beside(len(calls.call)) as begin:
        excess = begin(lambda: own_excess(calls, window))
        counts = np.isin(calls.step, steps)
        ledger = Ledger(calls, counts=counts, num_ranks=len(window.ranks), topology=window.topology)
        ledger.settle(excess)
    num, ranks = max(len(steps), 1), window.ranks
    others = max(int(np.isfinite(window.step_s).any(axis=1).sum()) - 1, 1)
    return Waits(
        late_s=np.maximum(ledger.late.sum(axis=0), 0.0) / num / others,
        habit_s=_habit(ledger.late[np.isin(np.unique(calls.step), steps)]) / others,
        waited_s=np.bincount(calls.rank, weights=ledger.wait, minlength=len(ranks)) / num,
        votes=_votes(ledger.late) / num,
        calls=calls,
        last_rank=ranks[ledger.last],
        max_wait_s=ledger.max_wait,
        guilty=np.where(ledger.guilty >= 0, ranks[ledger.guilty], -1),
        members=ranks[calls.rank],
        wait_s=ledger.wait,
        excess_s=excess.result(),
        num_usable=len(steps),
    )


HABIT = 2.0
"""What a step costs beyond twice the rank's median step is no habit of it."""


def _habit(by_step: Floats) -> Floats:
    """Mean over the steps of what is no exception among the rank's own. `by_step` (step, rank)"""
    if not len(by_step):
        return np.zeros(by_step.shape[1])
    middle = np.maximum(np.median(by_step, axis=0), 0.0)
    return np.asarray(np.clip(by_step, 0.0, HABIT * middle).mean(axis=0))


def waiting_steps(window: Window) -> Ints:
    """Usable steps whose waiting is their own: after a mark or a disturbance ranks leave unevenly."""
    calm = np.append(True, window.usable[:-1])
    return np.asarray(window.steps[window.usable & calm])


def own_excess(calls: Calls, window: Window) -> Floats:
    """Time from the last release to the entry, beyond the median of ranks doing the same work. (row,)

    Where the release is unknown (first call of the window): how much later than the call's median entry.
    """
    classes, is_known = work_classes(window.topology, window.ranks), np.isfinite(calls.work_s)
    known = np.flatnonzero(is_known)
    told = (packed(calls.step), calls.call, calls.rank, calls.place, classes, is_known)
    same, count = recalled(window.topology, "same work", told, lambda: same_work(calls, classes, known))
    excess = _after_median(calls)
    if len(known):
        work = calls.work_s[known]
        excess[known] = work - grouped_median(work, same, count)[same]
    return excess


def same_work(calls: Calls, classes: Ints, rows: Ints) -> tuple[Ints, int]:
    """Number of the work each row ends: place, step and class of rank; and how many there are. (row,)"""
    page = numbered(packed(calls.step))[0]
    return numbered(packed(page[calls.call[rows]], classes[calls.rank[rows]], calls.place[rows]))


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


def _votes(by_step: Floats) -> Floats:
    """In how many steps each rank cost at least `VOTE` of what the costliest did. `by_step` (step, rank)"""
    costliest = by_step.max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(((by_step >= VOTE * costliest) & (by_step > NEGLIGIBLE_S)).sum(axis=0), np.float64)
