"""Whose lateness a rank carries: the two ranks that most of it is from."""

from __future__ import annotations

import numpy as np

from argus.analytics.window import Floats, Ints

_Two = tuple[Ints, Ints, Floats, Floats]
"""Two ranks and how much is from each."""


class Names:
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
