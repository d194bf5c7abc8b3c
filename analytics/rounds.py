"""In which order the calls of a step can be visited: each after everything its members did before it.

A topological walk of all groups' calls at once (Kahn 1962), by each rank's own order of calls and so without
clocks. Who sends or broadcasts does not wait for the others: it hands over when it gets there and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.ordering import numbered, packed
from argus.analytics.window import Bools, Ints


@dataclass(frozen=True, kw_only=True)
class Round:
    """Rows that hand over without waiting, then calls whose members have all come to them; or, `by_times`, the calls
    of a circle that were entered first."""

    posts: Ints
    calls: Ints
    by_times: bool = False


def rounds(calls: Calls, *, chain: Ints, parts: int = 1) -> tuple[Iterator[Round], ...]:
    """Every call once; calls that wait for one another in a circle are taken by their entry times.

    `chain` (row,) numbers the steps of the ranks. Each of the `parts` walks steps of its own, whole.
    """
    order = calls.order
    lived = chain[order]
    same = lived[1:] == lived[:-1]
    after = np.full(len(order), -1, np.int64)
    after[order[:-1]] = np.where(same, order[1:], -1)
    heads = order[np.append(True, ~same)] if len(order) else order
    part = numbered(packed(calls.step))[0] % parts
    return tuple(
        _walked(_Walk(calls, after, part == n), heads[part[calls.call[heads]] == n]) for n in range(parts)
    )


def _walked(walk: _Walk, heads: Ints) -> Iterator[Round]:
    while not walk.done.all():
        posts, waiting = walk.post(heads)
        ready = walk.ready(posts, waiting)
        in_circle = not len(ready) and not len(posts)
        if in_circle:
            ready = walk.forced()
            posts = walk.unposted(ready)
        yield Round(posts=posts, calls=ready, by_times=in_circle)
        heads = walk.leave(ready)


class _Walk:
    """How far each rank has come in each step of the calls `mine`. Rows are those of `Calls`."""

    def __init__(self, calls: Calls, after: Ints, mine: Bools) -> None:
        num = len(calls.first)
        self.calls, self.next, self.done = calls, after, ~mine
        sources = np.bincount(calls.call[calls.source], minlength=num)
        self.needed = calls.size - sources
        self.open_sources = sources
        self.arrived = np.zeros(num, np.int64)
        self.here: Bools = np.zeros(len(after), np.bool_)
        self.taken = np.zeros(num, np.int64)

    def post(self, heads: Ints) -> tuple[Ints, Ints]:
        """Sources among the heads, and those right behind them, hand over; the others wait."""
        posted, waiting = [], []
        while len(heads):
            heads = self._beyond_done(heads)
            is_source = self.calls.source[heads]
            waiting.append(heads[~is_source])
            heads = heads[is_source]
            posted.append(heads)
            self.open_sources[self.calls.call[heads]] -= 1
            self.here[heads] = True
            heads = self.next[heads]
            heads = heads[heads >= 0]
        none = np.empty(0, np.int64)
        return np.concatenate([none, *posted]), np.concatenate([none, *waiting])

    def _beyond_done(self, heads: Ints) -> Ints:
        """Calls that were taken early are passed over."""
        while len(heads) and (over := self.done[self.calls.call[heads]]).any():
            after = self.next[heads[over]]
            heads = np.concatenate([heads[~over], after[after >= 0]])
        return heads

    def ready(self, posts: Ints, waiting: Ints) -> Ints:
        """Calls all of whose members are there now."""
        self.here[waiting] = True
        call = self.calls.call[waiting]
        np.add.at(self.arrived, call, 1)
        touched = np.concatenate([call, self.calls.call[posts]])
        whole = (self.arrived[touched] == self.needed[touched]) & (self.open_sources[touched] == 0)
        touched = touched[whole]
        self.taken[touched] = np.arange(len(touched))
        return np.asarray(touched[self.taken[touched] == np.arange(len(touched))])

    def forced(self) -> Ints:
        """Of each step the call with the earliest last entry among those somebody stands at."""
        calls = self.calls
        reached = np.zeros(len(self.done), np.bool_)
        reached[calls.call[self.here]] = True
        open_calls = np.flatnonzero(reached & ~self.done)
        last = np.maximum.reduceat(calls.entry_s, calls.first)[open_calls]
        order = open_calls[np.lexsort((last, calls.step[open_calls]))]
        assert len(order), "a rank stands at no call, yet calls are left"
        return np.asarray(order[np.append(True, np.diff(calls.step[order]) != 0)])

    def unposted(self, ready: Ints) -> Ints:
        """Sources of calls taken early that have not come to them."""
        rows = rows_of(self.calls, ready)
        rows = rows[self.calls.source[rows] & ~self.here[rows]]
        self.open_sources[self.calls.call[rows]] -= 1
        return rows

    def leave(self, ready: Ints) -> Ints:
        """The calls are over; what their members come to next."""
        self.done[ready] = True
        rows = rows_of(self.calls, ready)
        after = self.next[rows[self.here[rows] & ~self.calls.source[rows]]]
        return after[after >= 0]


def rows_of(calls: Calls, which: Ints) -> Ints:
    """All rows of some calls."""
    size = calls.size[which]
    start = np.repeat(calls.first[which] - np.cumsum(size) + size, size)
    return start + np.arange(len(start))
