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
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.carried import Names
from argus.analytics.meetings import Meeting, Pairs, alike, are_pairs, rows_of_alike
from argus.analytics.ordering import numbered, packed
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

    def __init__(self, calls: Calls, *, counts: Bools, num_ranks: int) -> None:
        self.calls, self.counts = calls, counts
        page, num_pages = numbered(packed(calls.step))
        self.spot = page[calls.call] * num_ranks + calls.rank
        size, num = num_pages * num_ranks, len(calls.first)
        self.names = Names(size)
        self.own, self.amount, self.due = np.zeros(size), np.zeros(size), np.zeros(size)
        self.last, self.guilty, self.max_wait = np.full(num, -1), np.full(num, -1), np.zeros(num)
        self.wait, self.late = np.zeros(len(self.spot)), np.zeros((num_pages, num_ranks))

    def settle(self, excess: Future[Floats]) -> None:
        """Walk forward, then back; the steps know nothing of one another, so large windows are split by them.

        `excess` (row,) = own work beyond what is usual, seconds.
        """
        parts = PARTS if len(self.spot) >= SPLIT_ROWS else 1
        walks = rounds(self.calls, chain=self.spot, parts=parts)
        if parts == 1:
            self._walk(walks[0], excess)
            return
        with ThreadPoolExecutor(parts) as pool:
            for done in [pool.submit(self._walk, walk, excess) for walk in walks]:
                done.result()

    def _walk(self, walk: Iterator[Round], excess: Future[Floats]) -> None:
        _Course(self, tuple(walk)).run(excess.result())


class _Course:
    """The walk over the steps of one part. Its rows lie in the order they are come to, so that most of the work
    is on pieces of memory and not on places scattered over millions of rows."""

    def __init__(self, ledger: Ledger, turns: Sequence[Round]) -> None:
        self.ledger, calls = ledger, ledger.calls
        is_pair = are_pairs(calls)
        meetings = [alike(calls, is_pair, turn.calls) for turn in turns]
        # Where each row of the calls lies here, and the other way round.
        here = [rows_of_alike(calls, is_pair, which) for parts in meetings for which in parts]
        self.row_of = np.concatenate([np.empty(0, np.int64), *here])
        self.entry = calls.entry_s[self.row_of]
        self.spot, self.rank = ledger.spot[self.row_of], calls.rank[self.row_of]
        self.source, self.synced = calls.source[self.row_of], calls.synced[self.row_of]
        num = len(self.row_of)
        self.own, self.amount, self.per_s = np.zeros(num), np.zeros(num), np.zeros(num)
        self.common, self.wait, self.stood = np.zeros(num), np.zeros(num), np.zeros(num, np.bool_)
        self.leader = np.zeros(len(calls.first), np.int64)
        self.turns = self._laid_out(turns, meetings, is_pair)

    def _laid_out(
        self, turns: Sequence[Round], meetings: Sequence[Sequence[Ints]], is_pair: Bools
    ) -> list[Ints | Pairs | Meeting]:
        """Posts as their rows here, and meetings, in the order of the walk."""
        calls = self.ledger.calls
        place = np.zeros(len(calls.call), np.int64)
        place[self.row_of] = np.arange(len(self.row_of))
        found: list[Ints | Pairs | Meeting] = []
        first = 0
        for turn, parts in zip(turns, meetings, strict=True):
            found += one_per_spot(place[turn.posts], self.spot)
            for which in parts:
                found.append(self._meeting(which, first, is_pair=bool(is_pair[which[0]])))
                first += len(which) * int(calls.size[which[0]])
        return found

    def _meeting(self, which: Ints, first: int, *, is_pair: bool) -> Pairs | Meeting:
        """Calls that are alike and lie from `first` on."""
        calls, all_count = self.ledger.calls, bool(self.ledger.counts[which].all())
        if is_pair:
            sends_first = calls.source[calls.first[which]]
            return Pairs(which=which, first=first, sends_first=sends_first, all_count=all_count)
        size = int(calls.size[which[0]])
        rows = slice(first, first + len(which) * size)
        return Meeting(
            which=which,
            size=size,
            first=first,
            has_source=bool(self.source[rows].any()),
            has_one_way=bool(calls.one_way[which].any()),
            all_stand=bool(self.synced[rows].all()),
            all_count=all_count,
        )

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
