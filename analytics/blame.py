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
from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls
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
        self.names = _Names(size)
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


@dataclass(frozen=True, kw_only=True)
class _Meeting:
    """Calls `which` of `size` members each, in the rows of a course from `first` on; flags say what is in them."""

    which: Ints
    size: int
    first: int
    has_source: bool
    has_one_way: bool
    all_stand: bool
    all_count: bool

    @property
    def rows(self) -> slice:
        """Their rows."""
        return slice(self.first, self.first + len(self.which) * self.size)


class _Course:
    """The walk over the steps of one part. Its rows lie in the order they are come to, so that most of the work
    is on pieces of memory and not on places scattered over millions of rows."""

    def __init__(self, ledger: Ledger, turns: Sequence[Round]) -> None:
        self.ledger, calls = ledger, ledger.calls
        meetings = [
            which[calls.size[which] == size]
            for which in (turn.calls for turn in turns)
            for size in np.unique(calls.size[which])
        ]
        # Where each row of the calls lies here, and the other way round.
        here = [
            (calls.first[which][:, None] + np.arange(calls.size[which[0]])).reshape(-1) for which in meetings
        ]
        self.row_of = np.concatenate([np.empty(0, np.int64), *here])
        self.entry = calls.entry_s[self.row_of]
        self.spot, self.rank = ledger.spot[self.row_of], calls.rank[self.row_of]
        self.source, self.synced = calls.source[self.row_of], calls.synced[self.row_of]
        num = len(self.row_of)
        self.own, self.amount, self.per_s = np.zeros(num), np.zeros(num), np.zeros(num)
        self.common, self.wait, self.stood = np.zeros(num), np.zeros(num), np.zeros(num, np.bool_)
        self.leader = np.zeros(len(calls.first), np.int64)
        self.turns = self._laid_out(turns, meetings)

    def _laid_out(self, turns: Sequence[Round], meetings: Sequence[Ints]) -> list[Ints | _Meeting]:
        """Posts as their rows here, and meetings, in the order of the walk."""
        calls, counts = self.ledger.calls, self.ledger.counts
        place = np.zeros(len(calls.call), np.int64)
        place[self.row_of] = np.arange(len(self.row_of))
        found: list[Ints | _Meeting] = []
        first, rest = 0, iter(meetings)
        for turn in turns:
            posts = place[turn.posts]
            found += one_per_spot(posts, self.spot)
            for _ in np.unique(calls.size[turn.calls]):
                which = next(rest)
                size = int(calls.size[which[0]])
                rows = slice(first, first + len(which) * size)
                found.append(
                    _Meeting(
                        which=which,
                        size=size,
                        first=first,
                        has_source=bool(self.source[rows].any()),
                        has_one_way=bool(calls.one_way[which].any()),
                        all_stand=bool(self.synced[rows].all()),
                        all_count=bool(counts[which].all()),
                    )
                )
                first = rows.stop
        return found

    def run(self, excess_s: Floats) -> None:
        """There and back, and what it comes to told to the ledger. `excess_s` (row,) as the calls' rows lie."""
        self.excess = excess_s[self.row_of]
        for turn in self.turns:
            if isinstance(turn, _Meeting):
                self._meet(turn)
            else:
                self._post(turn)
        for turn in reversed(self.turns):
            if isinstance(turn, _Meeting):
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

    def _meet(self, turn: _Meeting) -> None:
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

    def _enter(self, turn: _Meeting, spot: Ints, source: Bools) -> None:
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

    def _stood(self, turn: _Meeting, wait: Floats, source: Bools, *, one_way: Bools) -> Bools | None:
        """Who stood still until the end; None where everybody did, which is usual, and masks are slow."""
        if turn.all_stand and not turn.has_source and not turn.has_one_way:
            self.stood[turn.rows] = True
            return None
        stood = self.synced[turn.rows].reshape(wait.shape) & ~source
        if turn.has_one_way:  # who comes after the source has not waited and keeps its own history
            stood &= ~one_way[:, None] | (wait > 0)
        self.stood[turn.rows] = stood.reshape(-1)
        return np.asarray(stood, np.bool_)

    def _charge(self, turn: _Meeting, entry: Floats, blame: Floats, *, last: Ints) -> None:
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

    def _carry(self, turn: _Meeting, spot: Ints, stood: Bools | None, *, last: Ints) -> None:
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

    def _back_over(self, turn: _Meeting) -> None:
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


_Two = tuple[Ints, Ints, Floats, Floats]
"""Two ranks and how much is from each."""


class _Names:
    """The two ranks that most of the carried lateness is from, with how much. (step · rank,) each

    Of a history only the largest part needs a name, but many small parts of one rank must be able to outgrow it:
    so the runner-up is counted too.
    """

    def __init__(self, size: int) -> None:
        self.first, self.second = np.full(size, -1), np.full(size, -1)
        self.first_s, self.second_s = np.zeros(size), np.zeros(size)

    def hand_over(self, to: Ints, source: Ints, rank: Ints, own_s: Floats) -> None:
        """`to` takes over what `source` carries and `own_s` of `rank` itself."""
        self.put(to, self.after(source, rank, own_s), np.arange(len(to)))

    def put(self, to: Ints, taken: _Two, of: Ints) -> None:
        """The places `to` carry what `taken[of]` says."""
        first, second, first_s, second_s = taken
        self.first[to], self.second[to] = first[of], second[of]
        self.first_s[to], self.second_s[to] = first_s[of], second_s[of]

    def after(self, source: Ints, rank: Ints, own_s: Floats) -> _Two:
        """The two ranks and their parts of what `source` carries once `own_s` of `rank` has come to it."""
        first, second = self.first[source], self.second[source]
        first_s, second_s = self.first_s[source], self.second_s[source]
        is_first, is_second = first == rank, second == rank
        first_s = first_s + np.where(is_first, own_s, 0.0)
        second_s = second_s + np.where(is_second, own_s, 0.0)
        replaces = ~is_first & ~is_second & (own_s > second_s)
        second, second_s = np.where(replaces, rank, second), np.where(replaces, own_s, second_s)
        swap = second_s > first_s
        return (
            np.where(swap, second, first),
            np.where(swap, first, second),
            np.where(swap, second_s, first_s),
            np.where(swap, first_s, second_s),
        )


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
