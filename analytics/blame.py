"""Blame for waiting, walked back along the wait edges of all groups to the work that caused it.

Forward: every row carries what is known of its rank's lateness: own work since the rank last stood in step with
others (`own`), and what it took over there (`amount`, the lateness of the last to enter). Backward: each call's
waiting, split between those who came late, is handed to their own work and to what they had taken over, and from
there to the rank it was taken over from: reverse-mode differentiation of a sum of maxima, so that the lateness
of many small pieces adds up under one name however long the way. What both members of a pair took over from the
same rank cancels out. Lateness that is neither own work nor taken over, a slow transfer of another group,
is charged to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.rounds import Round, rounds
from argus.analytics.window import Bools, Floats, Ints

NEGLIGIBLE_S = 1e-9
"""Below the clock's own unit nothing is late."""

PARTS, SPLIT_ROWS = 2, 200_000
"""Threads over the steps of a window with so many rows: numpy lets go of the interpreter while it works, and the
promise is made for two cores. Below that a thread costs more than it saves."""


class Ledger:
    """One forward and one backward walk over the calls of a window. Every step has its own page, (step · rank):
    what earlier steps left behind lies before the release that own work counts from. So all steps are walked
    at once.

    After `settle`: `late` (step, rank) = seconds of waiting that a rank's work caused; (call,): `last` = the row
    of `Window.ranks` that entered last, `guilty` = whose lateness it mostly was, −1 nobody's, `max_wait`;
    `wait` (row,) = how long each row stood waiting in steps that count.
    """

    def __init__(self, calls: Calls, *, excess: Floats, counts: Bools, num_ranks: int) -> None:
        self.calls, self.excess, self.counts, self.num_ranks = calls, excess, counts, num_ranks
        pages, page = np.unique(calls.step, return_inverse=True)
        self.spot = page.reshape(-1)[calls.call] * num_ranks + calls.rank
        size, rows, num = len(pages) * num_ranks, len(self.spot), len(calls.first)
        self.names = _Names(size)
        self.own, self.amount = np.zeros(size), np.zeros(size)
        self.row_own, self.row_amount, self.per_s = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        self.carried = np.zeros(rows, np.bool_)
        self.common, self.due = np.zeros(rows), np.zeros(size)
        self.last, self.leader = np.full(num, -1), np.zeros(num, np.int64)
        self.guilty, self.max_wait, self.wait = np.full(num, -1), np.zeros(num), np.zeros(rows)
        self.late = np.zeros((len(pages), num_ranks))

    def settle(self) -> Ledger:
        """Walk forward, then back; the steps know nothing of one another, so large windows are split by them."""
        parts = PARTS if len(self.spot) >= SPLIT_ROWS else 1
        walks = rounds(self.calls, chain=self.spot, parts=parts)
        with ThreadPoolExecutor(parts) as pool:
            for done in [pool.submit(self._walk, walk) for walk in walks]:
                done.result()
        return self

    def _walk(self, walk: Iterator[Round]) -> None:
        """There and back over the steps of one walk."""
        turns: list[tuple[bool, Ints]] = []
        for turn in walk:
            for rows in one_per_spot(turn.posts, self.spot):
                self._post(rows)
                turns.append((False, rows))
            for size in np.unique(self.calls.size[turn.calls]):
                which = turn.calls[self.calls.size[turn.calls] == size]
                self._visit(which)
                turns.append((True, which))
        self._walk_back(turns)

    def _enter(self, rows: Ints) -> None:
        spot = self.spot[rows]
        own = self.own[spot] = self.own[spot] + self.excess[rows]
        self.row_own[rows] = np.maximum(own, 0.0)
        self.row_amount[rows] = self.amount[spot]

    def _carry(self, rows: Ints, *, source: Ints, of: Ints) -> None:
        """Whoever stood still until the end now carries the history of the last to enter: `source[of]`."""
        spot = self.spot[rows]
        self.names.hand_over(spot, of, self.spot[source], self.calls.rank[source], self.row_own[source])
        self.amount[spot] = (self.row_amount[source] + self.row_own[source])[of]
        self.own[spot] = 0.0

    def _post(self, rows: Ints) -> None:
        """These rows hand over and go on."""
        self._enter(rows)
        stood = rows[self.calls.synced[rows]]
        self._carry(stood, source=stood, of=np.arange(len(stood)))

    def _visit(self, which: Ints) -> None:
        """Who waited how long for whom in the calls `which`, all of one size."""
        calls = self.calls
        rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
        source, one_way = calls.source[rows], calls.one_way[which]
        self._enter(rows[~source] if source.any() else rows.reshape(-1))
        entry = calls.entry_s[rows]
        decisive = np.where(one_way[:, None] & ~source, -np.inf, entry) if one_way.any() else entry
        last, line = decisive.argmax(axis=1), np.arange(len(which))
        leader = self.leader[which] = rows[line, last]
        wait = np.maximum(decisive[line, last][:, None] - entry, 0.0)
        stood = calls.synced[rows] & ~source
        if one_way.any():  # who comes after the source has not waited and keeps its own history
            stood &= ~one_way[:, None] | (wait > 0)
        self.carried[rows] = stood
        self.last[which], self.max_wait[which] = calls.rank[leader], wait.max(axis=1)
        self._charge(which, rows, self._shares(entry, wait, stood, one_way=one_way, last=last), last=last)
        counted = self.counts[which]
        if counted.all():
            self.wait[rows] = wait * stood
        else:
            self.wait[rows[counted]] = (wait * stood)[counted]
        everyone = stood.all()  # the usual case, and masks are slow
        size = np.full(len(which), rows.shape[1]) if everyone else stood.sum(axis=1)
        self._carry(rows.reshape(-1) if everyone else rows[stood], source=leader, of=np.repeat(line, size))

    @staticmethod
    def _shares(entry: Floats, wait: Floats, stood: Bools, *, one_way: Bools, last: Ints) -> Floats:
        """Each member's share of the waiting that really stood still. (call, member)"""
        blame = airport_shares(entry)
        if one_way.any():
            blame[one_way] = 0.0
            blame[one_way, last[one_way]] = wait[one_way].sum(axis=1)
        whole = np.maximum(wait.sum(axis=1), NEGLIGIBLE_S)
        return np.asarray(blame * ((wait * stood).sum(axis=1) / whole)[:, None])

    def _charge(self, which: Ints, rows: Ints, blame: Floats, *, last: Ints) -> None:
        """Seconds of blame per second of each member's lateness, and who the last one was late by."""
        calls, at = self.calls, (np.arange(len(which)), last)
        own, amount, entry = self.row_own[rows], self.row_amount[rows], calls.entry_s[rows]
        taken = amount - amount.min(axis=1, keepdims=True)
        lateness = entry - entry.min(axis=1, keepdims=True)
        explained = own + taken
        per_s = blame / np.maximum(np.maximum(explained, lateness), NEGLIGIBLE_S)
        self.per_s[rows] = np.where(self.counts[which][:, None], per_s, 0.0)
        by_itself = own[at] >= taken[at]
        name = np.where(by_itself, calls.rank[rows[at]], self.names.first[self.spot[rows[at]]])
        self.guilty[which] = np.where(explained[at] >= 0.5 * lateness[at], name, -1)

    def _walk_back(self, turns: Sequence[tuple[bool, Ints]]) -> None:
        """From the last call to the first: `due` (step · rank) = blame per second of what a rank carries."""
        calls, late = self.calls, self.late.reshape(-1)
        due = self.due
        for is_call, which in reversed(turns):
            if is_call:
                self._back_over(which, due, late)
                continue
            spot = self.spot[which]
            stood = calls.synced[which]
            passed = self.per_s[which] + np.where(stood, due[spot], 0.0)
            late[spot] += passed * self.row_own[which]
            due[spot] = np.where(stood, 0.0, due[spot]) + passed - self.common[which]

    def _back_over(self, which: Ints, due: Floats, late: Floats) -> None:
        calls = self.calls
        rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
        spot, source, line = self.spot[rows], calls.source[rows], np.arange(len(which))
        before = due[spot]
        after = before * self.carried[rows]
        passed = self.per_s[rows]
        common = np.zeros(rows.shape)
        common[line, self.row_amount[rows].argmin(axis=1)] = passed.sum(axis=1)
        passed[line, self.leader[which] - calls.first[which]] += after.sum(axis=1)
        if not source.any():
            late[spot] += passed * self.row_own[rows]
            due[spot] = before - after + passed - common
            return
        # Only those who came to the call now: a source has its place in this turn for another call.
        here = ~source
        late[spot[here]] += (passed * self.row_own[rows])[here]
        due[spot[here]] += (passed - common - after)[here]
        # A source went on before the others came: its part waits for the walk to get there.
        self.per_s[rows[source]], self.common[rows[source]] = passed[source], common[source]


class _Names:
    """The two ranks that most of the carried lateness is from, with how much. (step · rank,) each

    Of a history only the largest part needs a name, but many small parts of one rank must be able to outgrow it:
    so the runner-up is counted too.
    """

    def __init__(self, size: int) -> None:
        self.first, self.second = np.full(size, -1), np.full(size, -1)
        self.first_s, self.second_s = np.zeros(size), np.zeros(size)

    def hand_over(self, to: Ints, of: Ints, source: Ints, rank: Ints, own_s: Floats) -> None:
        """`to` takes over what `source[of]` carries and `own_s[of]` of `rank[of]` itself."""
        first, second = self.first[source], self.second[source]
        first_s, second_s = self.first_s[source], self.second_s[source]
        is_first, is_second = first == rank, second == rank
        first_s = first_s + np.where(is_first, own_s, 0.0)
        second_s = second_s + np.where(is_second, own_s, 0.0)
        replaces = ~is_first & ~is_second & (own_s > second_s)
        second, second_s = np.where(replaces, rank, second), np.where(replaces, own_s, second_s)
        swap = second_s > first_s
        self.first[to] = np.where(swap, second, first)[of]
        self.second[to] = np.where(swap, first, second)[of]
        self.first_s[to] = np.where(swap, second_s, first_s)[of]
        self.second_s[to] = np.where(swap, first_s, second_s)[of]


def one_per_spot(rows: Ints, spot: Ints) -> Iterator[Ints]:
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
