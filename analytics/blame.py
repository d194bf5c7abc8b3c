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

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

import numpy as np

from argus.analytics.beside import WORTH_ROWS, beside
from argus.analytics.calls import Calls
from argus.analytics.carried import Names
from argus.analytics.meetings import Meeting, Pairs
from argus.analytics.ordering import numbered, packed
from argus.analytics.recalled import recalled
from argus.analytics.rounds import Round, rounds
from argus.analytics.route import Route, route_of
from argus.analytics.window import Bools, Floats, Ints
from argus.topology.layout import Topology

NEGLIGIBLE_S = 1e-9
"""Below the clock's own unit nothing is late."""

PARTS = 2
"""Walks over the steps of a window with many rows: the promise is made for two cores."""


class Ledger:
    """One forward and one backward walk over the calls of a window. Every step has its own page, (step · rank):
    what earlier steps left behind lies before the release that own work counts from. So all steps are walked
    at once.

    After `settle`: `late` (step, rank) = seconds of waiting that a rank's work caused; (call,): `last` = the row
    of `Window.ranks` that entered last, `guilty` = whose lateness it mostly was, −1 nobody's, `max_wait`;
    `wait` (row,) = how long each row stood waiting in steps that count.
    """

    def __init__(self, calls: Calls, *, counts: Bools, num_ranks: int, topology: Topology) -> None:
        self.calls, self.counts, self.topology = calls, counts, topology
        step = packed(calls.step)
        self.spot, num_pages = recalled(
            topology,
            "pages",
            (step, calls.call, calls.rank, num_ranks),
            lambda: _pages(step, calls, num_ranks=num_ranks),
        )
        size, num = num_pages * num_ranks, len(calls.first)
        self.names = Names(size)
        self.own, self.amount, self.due = np.zeros(size), np.zeros(size), np.zeros(size)
        self.last, self.guilty, self.max_wait = np.full(num, -1), np.full(num, -1), np.zeros(num)
        self.wait, self.late = np.zeros(len(self.spot)), np.zeros((num_pages, num_ranks))

    def settle(self, excess: Future[Floats]) -> None:
        """Walk forward, then back; the steps know nothing of one another, so large windows are split by them.

        `excess` (row,) = own work beyond what is usual, seconds.
        """
        with beside(len(self.spot)) as begin:
            routes = self._routes(PARTS if len(self.spot) >= WORTH_ROWS else 1)
            others = [begin(partial(self._walk, route, excess)) for route in routes[1:]]
            self._walk(routes[0], excess)
            for other in others:
                other.result()

    def _routes(self, parts: int) -> tuple[Route, ...]:
        """The way over the calls, in so many parts."""
        calls = self.calls
        told = (calls.call, calls.rank, calls.first, calls.size, calls.source, calls.one_way, calls.synced)
        return recalled(
            self.topology,
            "routes",
            (calls.order, self.spot, self.counts, parts, *told),
            lambda: self._found_routes(parts),
            keeps=lambda routes: not any(route.is_by_times for route in routes),
        )

    def _found_routes(self, parts: int) -> tuple[Route, ...]:
        calls = self.calls

        def found(walk: Iterator[Round]) -> Route:
            return route_of(calls, tuple(walk), spot=self.spot, counts=self.counts)

        walks = rounds(calls, chain=self.spot, parts=parts)
        with beside(len(self.spot)) as begin:
            others = [begin(partial(found, walk)) for walk in walks[1:]]
            return found(walks[0]), *(other.result() for other in others)

    def _walk(self, route: Route, excess: Future[Floats]) -> None:
        _Course(self, route).run(excess.result())


def _pages(step: Ints, calls: Calls, *, num_ranks: int) -> tuple[Ints, int]:
    """Number of each row's rank and step, the steps' numbers being `step` (call,), and how many steps there are."""
    page, num_pages = numbered(step)
    return page[calls.call] * num_ranks + calls.rank, num_pages


class _Course:
    """The walk along one route."""

    def __init__(self, ledger: Ledger, route: Route) -> None:
        self.ledger, self.turns, self.row_of = ledger, route.turns, route.row_of
        self.entry = ledger.calls.entry_s[route.row_of]
        self.spot, self.rank, self.source, self.synced = route.spot, route.rank, route.source, route.synced
        num = len(self.row_of)
        self.own, self.amount, self.per_s = np.zeros(num), np.zeros(num), np.zeros(num)
        self.common, self.wait, self.stood = np.zeros(num), np.zeros(num), np.zeros(num, np.bool_)
        self.leader = np.zeros(len(ledger.calls.first), np.int64)

    def run(self, excess_s: Floats) -> None:
        """There and back, and what it comes to told to the ledger. `excess_s` (row,) as the calls' rows lie."""
        self.excess = excess_s[self.row_of]
        for turn in self.turns:
            if isinstance(turn, Pairs):
                self._meet_pairs(turn)
            elif isinstance(turn, Meeting):
                self._meet(turn)
            else:
                self._post(turn)
        for turn in reversed(self.turns):
            if isinstance(turn, Pairs):
                self._back_over_pairs(turn)
            elif isinstance(turn, Meeting):
                self._back_over(turn)
            else:
                self._back_over_posts(turn)
        self.ledger.wait[self.row_of] = self.wait

    def _post(self, rows: Ints) -> None:
        """These rows hand over and go on."""
        spot, state = self.spot[rows], self.ledger
        own = state.own[spot] = state.own[spot] + self.excess[rows]
        self.own[rows], self.amount[rows] = np.maximum(own, 0.0), state.amount[spot]
        stood = rows[self.synced[rows]]
        if len(stood):
            at = self.spot[stood]
            state.names.hand_over(at, at, self.rank[stood], self.own[stood])
            state.amount[at] = self.amount[stood] + self.own[stood]
            state.own[at] = 0.0

    def _meet_pairs(self, turn: Pairs) -> None:
        """`_meet` for calls of a sender, who came before, and one receiver, who is all that can wait."""
        state, here, there, which = self.ledger, turn.receivers, turn.senders, turn.which
        spot = self.spot[here]
        own = state.own[spot] = state.own[spot] + self.excess[here]
        self.own[here], self.amount[here] = np.maximum(own, 0.0), state.amount[spot]
        wait = np.maximum(self.entry[there] - self.entry[here], 0.0)
        stood = self.stood[here] = self.synced[here] & (wait > 0)
        state.last[which], state.max_wait[which] = self.rank[there], wait
        waited = wait * stood
        self.wait[here] = waited if turn.all_count else waited * state.counts[which]
        self._charge_senders(turn, wait * (waited / np.maximum(wait, NEGLIGIBLE_S)))
        held = np.flatnonzero(stood)
        source, at = turn.first + held, spot[held]
        state.names.hand_over(at, self.spot[source], self.rank[source], self.own[source])
        state.amount[at], state.own[at] = self.amount[source] + self.own[source], 0.0

    def _charge_senders(self, turn: Pairs, blame: Floats) -> None:
        """`_charge` for calls whose sender is the last to enter."""
        state, there, here = self.ledger, turn.senders, turn.receivers
        own, amount = self.own[there], self.amount[there]
        taken = amount - np.minimum(amount, self.amount[here])
        lateness = self.entry[there] - np.minimum(self.entry[there], self.entry[here])
        explained = own + taken
        per_s = blame / np.maximum(np.maximum(explained, lateness), NEGLIGIBLE_S)
        self.per_s[there] = per_s if turn.all_count else per_s * state.counts[turn.which]
        name = np.where(own >= taken, self.rank[there], state.names.first[self.spot[there]])
        state.guilty[turn.which] = np.where(explained >= 0.5 * lateness, name, -1)

    def _meet(self, turn: Meeting) -> None:
        """Who waited how long for whom in calls of one size."""
        shape, rows, state = (len(turn.which), turn.size), turn.rows, self.ledger
        entry, spot = self.entry[rows].reshape(shape), self.spot[rows].reshape(shape)
        source = self.source[rows].reshape(shape)
        self._enter(turn, spot, source)
        decisive, one_way = entry, state.calls.one_way[turn.which]
        if turn.has_one_way:
            decisive = np.where(one_way[:, None] & ~source, -np.inf, entry)
        last, line = decisive.argmax(axis=1), np.arange(len(turn.which))
        wait = np.maximum(decisive[line, last][:, None] - entry, 0.0)
        stood = self._stood(turn, wait, source, one_way=one_way)
        state.last[turn.which] = self.rank[rows].reshape(shape)[line, last]
        state.max_wait[turn.which] = wait.max(axis=1)
        blame = airport_shares(entry)
        if turn.has_one_way:
            blame[one_way] = 0.0
            blame[one_way, last[one_way]] = wait[one_way].sum(axis=1)
        if stood is not None:
            # Each member's share of the waiting that really stood still.
            whole = np.maximum(wait.sum(axis=1), NEGLIGIBLE_S)
            wait *= stood
            blame *= (wait.sum(axis=1) / whole)[:, None]
        self._charge(turn, entry, blame, last=last)
        self.wait[rows] = (wait if turn.all_count else wait * state.counts[turn.which][:, None]).reshape(-1)
        self._carry(turn, spot, stood, last=last)

    def _enter(self, turn: Meeting, spot: Ints, source: Bools) -> None:
        """What each row has done by itself and taken over when it comes; a source came before."""
        rows, state = turn.rows, self.ledger
        own = state.own[spot] + self.excess[rows].reshape(spot.shape)
        if not turn.has_source:
            if not turn.all_stand or turn.has_one_way:
                state.own[spot] = own
            self.own[rows], self.amount[rows] = (
                np.maximum(own, 0.0).reshape(-1),
                state.amount[spot].reshape(-1),
            )
            return
        here = ~source
        state.own[spot[here]] = own[here]
        at = np.flatnonzero(here.reshape(-1)) + turn.first
        self.own[at], self.amount[at] = np.maximum(own[here], 0.0), state.amount[spot[here]]

    def _stood(self, turn: Meeting, wait: Floats, source: Bools, *, one_way: Bools) -> Bools | None:
        """Who stood still until the end; None where everybody did, which is usual, and masks are slow."""
        if turn.all_stand and not turn.has_source and not turn.has_one_way:
            self.stood[turn.rows] = True
            return None
        stood = self.synced[turn.rows].reshape(wait.shape) & ~source
        if turn.has_one_way:  # who comes after the source has not waited and keeps its own history
            stood &= ~one_way[:, None] | (wait > 0)
        self.stood[turn.rows] = stood.reshape(-1)
        return np.asarray(stood, np.bool_)

    def _charge(self, turn: Meeting, entry: Floats, blame: Floats, *, last: Ints) -> None:
        """Seconds of blame per second of each member's lateness, and who the last one was late by."""
        state, rows, at = self.ledger, turn.rows, (np.arange(len(turn.which)), last)
        own, amount = self.own[rows].reshape(entry.shape), self.amount[rows].reshape(entry.shape)
        taken = amount - amount.min(axis=1, keepdims=True)
        lateness = entry - entry.min(axis=1, keepdims=True)
        explained = own + taken
        per_s = blame / np.maximum(np.maximum(explained, lateness), NEGLIGIBLE_S)
        if not turn.all_count:
            per_s *= state.counts[turn.which][:, None]
        self.per_s[rows] = per_s.reshape(-1)
        leader = self.leader[turn.which] = turn.first + at[0] * turn.size + last
        by_itself = own[at] >= taken[at]
        name = np.where(by_itself, self.rank[leader], state.names.first[self.spot[leader]])
        state.guilty[turn.which] = np.where(explained[at] >= 0.5 * lateness[at], name, -1)

    def _carry(self, turn: Meeting, spot: Ints, stood: Bools | None, *, last: Ints) -> None:
        """Whoever stood still until the end now carries the history of the last to enter."""
        state, leader = self.ledger, self.leader[turn.which]
        amount = self.amount[leader] + self.own[leader]
        taken = state.names.after(self.spot[leader], self.rank[leader], self.own[leader])
        if stood is None:
            state.names.put(spot, taken, np.arange(len(amount))[:, None])
            state.amount[spot], state.own[spot] = amount[:, None], 0.0
            return
        line = np.nonzero(stood)[0]
        at = spot[stood]
        state.names.put(at, taken, line)
        state.amount[at], state.own[at] = amount[line], 0.0

    def _back_over_posts(self, rows: Ints) -> None:
        """`due` (step · rank) = blame per second of what a rank carries, from the last call to the first."""
        state, spot = self.ledger, self.spot[rows]
        late, due = state.late.reshape(-1), state.due
        stood = self.synced[rows]
        passed = self.per_s[rows] + np.where(stood, due[spot], 0.0)
        late[spot] += passed * self.own[rows]
        due[spot] = np.where(stood, 0.0, due[spot]) + passed - self.common[rows]

    def _back_over_pairs(self, turn: Pairs) -> None:
        """`_back_over` for calls of a sender, whose part waits for the walk to get there, and a receiver."""
        due, there, here = self.ledger.due, turn.senders, turn.receivers
        spot, passed = self.spot[here], self.per_s[there].copy()
        after = due[spot] * self.stood[here]
        less = self.amount[there] - self.amount[here]
        is_senders = np.where(turn.sends_first, less <= 0, less < 0)
        self.per_s[there] += after
        self.common[there] = np.where(is_senders, passed, 0.0)
        due[spot] -= np.where(is_senders, 0.0, passed) + after

    def _back_over(self, turn: Meeting) -> None:
        state, rows, shape = self.ledger, turn.rows, (len(turn.which), turn.size)
        late, due, line = state.late.reshape(-1), state.due, np.arange(len(turn.which))
        spot, passed = self.spot[rows].reshape(shape), self.per_s[rows].reshape(shape)
        before = due[spot]
        after = (
            before if turn.all_stand and not turn.has_one_way else before * self.stood[rows].reshape(shape)
        )
        common = np.zeros(shape)
        common[line, self.amount[rows].reshape(shape).argmin(axis=1)] = passed.sum(axis=1)
        passed[line, self.leader[turn.which] - turn.first - line * turn.size] += after.sum(axis=1)
        own = self.own[rows].reshape(shape)
        if not turn.has_source:
            late[spot] += passed * own
            due[spot] = before - after + passed - common
            return
        # Only those who came to the call now: a source has its place in this turn for another call.
        source = self.source[rows].reshape(shape)
        here = ~source
        late[spot[here]] += (passed * own)[here]
        due[spot[here]] += (passed - common - after)[here]
        # A source went on before the others came: its part waits for the walk to get there.
        self.common[rows] = np.where(source, common, 0.0).reshape(-1)


def airport_shares(entry: Floats) -> Floats:
    """Each member's share of a call's waiting; entry (call, member), result sums to Σ (max − entry).

    >>> airport_shares(np.array([[0.0, 0.0, 3.0], [0.0, 4.0, 4.0]])).tolist()
    [[0.0, 0.0, 6.0], [0.0, 2.0, 2.0]]
    """
    if entry.shape[1] == 2:
        return np.maximum(entry - entry[:, ::-1], 0.0)
    order = np.argsort(entry, axis=1)
    come = np.take_along_axis(entry, order, axis=1)
    n = entry.shape[1]
    k = np.arange(1, n)
    shares = np.zeros_like(entry)
    shares[:, 1:] = np.cumsum(np.diff(come, axis=1) * k / (n - k), axis=1)
    result = np.empty_like(entry)
    np.put_along_axis(result, order, shares, axis=1)
    return result
