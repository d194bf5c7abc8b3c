"""Calls that are alike and so are met in one go, as a walk over a window's calls comes to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.window import Bools, Ints


@dataclass(frozen=True, kw_only=True)
class Meeting:
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


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Calls `which` of one who sends and one who receives, most of a pipeline's: the senders' rows in a course from
    `first` on, then the receivers'. `sends_first` (call,) = the sender is the first of the call's own rows."""

    which: Ints
    first: int
    sends_first: Bools
    all_count: bool

    @property
    def senders(self) -> slice:
        """Rows of those who send."""
        return slice(self.first, self.first + len(self.which))

    @property
    def receivers(self) -> slice:
        """Rows of those who receive."""
        return slice(self.first + len(self.which), self.first + 2 * len(self.which))


def are_pairs(calls: Calls) -> Bools:
    """Calls of one who sends and one who receives. (call,)"""
    pairs = calls.one_way & (calls.size == 2)
    first = calls.first[pairs]
    pairs[pairs] = calls.source[first] != calls.source[first + 1]
    return np.asarray(pairs, np.bool_)


def alike(calls: Calls, is_pair: Bools, which: Ints) -> list[Ints]:
    """The calls by their size, pairs apart and before the others: those meet ranks that have sent already."""
    paired, rest = which[is_pair[which]], which[~is_pair[which]]
    sizes = calls.size[rest]
    return [*([paired] if len(paired) else []), *(rest[sizes == size] for size in np.unique(sizes))]


def rows_of_alike(calls: Calls, is_pair: Bools, which: Ints) -> Ints:
    """The rows of calls that are alike, call by call; of pairs the senders, then the receivers."""
    first = calls.first[which]
    if is_pair[which[0]]:
        sends_first = calls.source[first]
        return np.concatenate([first + ~sends_first, first + sends_first])
    return np.asarray((first[:, None] + np.arange(calls.size[which[0]])).reshape(-1))
