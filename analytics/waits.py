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

from argus.analytics.calls import Calls, complete_calls
from argus.analytics.peers import work_classes
from argus.analytics.window import Bools, Floats, Ints, Window

NEGLIGIBLE_S = 1e-9
"""Below the clock's own unit nothing is late."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """The waiting of a window. Edge arrays (edge,) hold global ranks and indices into `Window.groups`.

    `late_s` (rank,) = seconds per usable step the other ranks waited on average because of this one;
    `waited_s` (rank,) = seconds per usable step this rank stood waiting. `victim`, `culprit`, `edge_group`,
    `edge_s` = who waited for whom in which group, seconds per usable step. Call arrays (call,): `last_rank`
    is the last to enter, `max_wait_s` the longest wait for it. `members` (row,) = global rank of each row of `calls`.
    """

    late_s: Floats
    waited_s: Floats
    victim: Ints
    culprit: Ints
    edge_group: Ints
    edge_s: Floats
    calls: Calls
    last_rank: Ints
    max_wait_s: Floats
    members: Ints

    @property
    def skipped(self) -> Mapping[str, int]:
        """Calls that could not be used, by reason."""
        return self.calls.skipped


def waits_of(window: Window) -> Waits:
    """The wait graph of one window, in seconds per usable step."""
    calls = complete_calls(window)
    ledger = _Ledger(calls, window)
    for level in np.unique(calls.level):
        for size in np.unique(calls.size[calls.level == level]):
            ledger.visit(np.flatnonzero((calls.level == level) & (calls.size == size)))
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
    place = np.stack([calls.step[calls.call], calls.level[calls.call], classes[calls.rank]], axis=1)
    _, same = np.unique(place, axis=0, return_inverse=True)
    same = same.reshape(-1)
    known = np.flatnonzero(np.isfinite(calls.work_s))
    order = known[np.lexsort((calls.work_s[known], same[known]))]
    keys, first, count = np.unique(same[order], return_index=True, return_counts=True)
    work = calls.work_s[order]
    middle = (work[first + (count - 1) // 2] + work[first + count // 2]) / 2
    expected = np.full(int(same.max(initial=-1)) + 1, np.nan)
    expected[keys] = middle
    excess = calls.work_s - expected[same]
    return np.asarray(np.where(np.isfinite(excess), excess, _after_median(calls)))


def _after_median(calls: Calls) -> Floats:
    """Entry minus the lower median entry of its call. (row,)"""
    order = np.lexsort((calls.entry_s, calls.call))
    middle = calls.entry_s[order][calls.first + (calls.size - 1) // 2]
    return np.asarray(calls.entry_s - middle[calls.call])


class _Ledger:
    """What each rank's lateness is made of while the calls are visited: its own work since it last stood
    in step with others (`own`), and what it inherited there (`amount`, from `origin`).

    Every step has its own page, (step · rank): what earlier steps left behind lies before the release that
    own work counts from. So all steps are visited at once.
    """

    def __init__(self, calls: Calls, window: Window) -> None:
        n = len(window.ranks)
        self.calls, self.window = calls, window
        self.excess = own_excess(calls, window)
        pages, page = np.unique(calls.step, return_inverse=True)
        self.page = page.reshape(-1) * n
        size = len(pages) * n
        self.own, self.amount = np.zeros(size), np.zeros(size)
        self.origin = np.full(size, -1)
        self.late, self.waited = np.zeros(n), np.zeros(n)
        steps = waiting_steps(window)
        self.num_usable, self.counts = len(steps), np.isin(calls.step, steps)
        self.last = np.full(len(calls.first), -1)
        self.max_wait = np.zeros(len(calls.first))
        self.edges: list[tuple[Ints, Ints, Ints, Floats]] = []

    def visit(self, which: Ints) -> None:
        """Blame the waiting in the calls `which`, all of one level and size."""
        calls = self.calls
        rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
        spot = self.page[which][:, None] + calls.rank[rows]
        rank, entry, stood = calls.rank[rows], calls.entry_s[rows], calls.synced[rows]
        np.add.at(self.own, spot, self.excess[rows])
        decisive = np.where(calls.one_way[which][:, None] & ~calls.source[rows], -np.inf, entry)
        last = decisive.argmax(axis=1)
        line = np.arange(len(which))
        wait = np.maximum(decisive[line, last][:, None] - entry, 0.0)
        self.last[which], self.max_wait[which] = rank[line, last], wait.max(axis=1)
        stood_wait = wait * stood
        blame = np.where(
            calls.one_way[which][:, None],
            (np.arange(rank.shape[1]) == last[:, None]) * wait.sum(axis=1, keepdims=True),
            airport_shares(entry),
        )
        blame *= (stood_wait.sum(axis=1) / np.maximum(wait.sum(axis=1), NEGLIGIBLE_S))[:, None]
        own = np.maximum(self.own[spot], 0.0)
        origin = self.origin[spot]
        inherited = self.amount[spot] - self.amount[spot].min(axis=1, keepdims=True)
        inherited = np.where(origin >= 0, inherited, 0.0)
        lateness = entry - entry.min(axis=1, keepdims=True)
        whole = np.maximum(np.maximum(own + inherited, lateness), NEGLIGIBLE_S)
        counted = self.counts[which]
        known = own + inherited >= 0.5 * lateness
        guilty = np.where(known, np.where(own >= inherited, rank, origin), -1)[line, last]
        self._charge(rank[counted], (blame * own / whole)[counted])
        self._charge(origin[counted], (blame * inherited / whole)[counted])
        np.add.at(self.waited, rank[counted], stood_wait[counted])
        self._draw(which[counted], rank[counted], guilty[counted], stood_wait[counted])
        self._sync(spot, stood, np.stack([spot[line, last], rank[line, last]]), own[line, last])

    def _charge(self, rank: Ints, seconds: Floats) -> None:
        known = rank >= 0
        np.add.at(self.late, rank[known], seconds[known])

    def _draw(self, which: Ints, rank: Ints, guilty: Ints, wait: Floats) -> None:
        culprit, group = guilty[:, None] + 0 * rank, self.calls.group[which][:, None] + 0 * rank
        chosen = (wait > NEGLIGIBLE_S) & (culprit != rank) & (culprit >= 0)
        self.edges.append((rank[chosen], culprit[chosen], group[chosen], wait[chosen]))

    def _sync(self, spot: Ints, stood: Bools, leader: Ints, own: Floats) -> None:
        """Whoever stood still until the end now carries the history of the last to enter.

        `leader` (2, call) = its spot and rank. Of a history only the largest part keeps a name.
        """
        by_itself = own >= self.amount[leader[0]]
        origin = np.where(by_itself, leader[1], self.origin[leader[0]])
        amount = self.amount[leader[0]] + own
        self.origin[spot[stood]] = (origin[:, None] + 0 * spot)[stood]
        self.amount[spot[stood]] = (amount[:, None] + 0.0 * spot)[stood]
        self.own[spot[stood]] = 0.0

    def waits(self) -> Waits:
        """The sums, per usable step."""
        steps = max(self.num_usable, 1)
        others = max(int(np.isfinite(self.window.step_s).any(axis=1).sum()) - 1, 1)
        columns = [np.concatenate(part) for part in zip(*self.edges, strict=True)] if self.edges else []
        victim, culprit, group, seconds = _add_up(columns)
        ranks = self.window.ranks
        return Waits(
            late_s=self.late / steps / others,
            waited_s=self.waited / steps,
            victim=ranks[victim],
            culprit=ranks[culprit],
            edge_group=group,
            edge_s=seconds / steps,
            calls=self.calls,
            last_rank=ranks[self.last],
            max_wait_s=self.max_wait,
            members=ranks[self.calls.rank],
        )


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


def _add_up(
    columns: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
) -> tuple[Ints, Ints, Ints, Floats]:
    """Edges of the same victim, culprit and group added up."""
    if not columns:
        none = np.empty(0, np.int64)
        return none, none, none, np.empty(0)
    key = np.stack(columns[:3], axis=1)
    unique, inverse = np.unique(key, axis=0, return_inverse=True)
    seconds = np.bincount(inverse.reshape(-1), weights=columns[3].astype(np.float64), minlength=len(unique))
    part = unique.astype(np.int64)
    return part[:, 0], part[:, 1], part[:, 2], np.asarray(seconds, np.float64)
