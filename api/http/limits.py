"""Requests per second, a bucket of tokens each: for keys, for addresses that show none, for uploads that come late."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

BURST_S = 10.0
"""Seconds' worth of requests that may come at once: a page that opens asks for a dozen things."""

MAX_WAIT_S = 120.0
"""Longest that a request is told to wait: beyond it, places in the queue are shared."""


@dataclass(kw_only=True)
class Buckets:
    """One bucket per name; `per_s` 0 lets everything through. `ticks` gives seconds that only go forward."""

    per_s: float
    ticks: Callable[[], float]
    burst_s: float = BURST_S
    max_names: int = 10_000
    _free_s: OrderedDict[str, float] = field(default_factory=OrderedDict, repr=False)

    def wait_s(self, name: str) -> float:
        """0 if a request of `name` may go on now, else how long until it may; called in one thread."""
        if self.per_s <= 0:
            return 0.0
        now_s, each_s = self.ticks(), 1.0 / self.per_s
        # A bucket is the time at which it will be full again: it runs ahead of now by what was taken.
        full_s = max(self._free_s.get(name, now_s), now_s)
        over_s = full_s + each_s - now_s - self.burst_s
        if over_s > 1e-9:
            return over_s
        self._keep(name, full_s + each_s)
        return 0.0

    def _keep(self, name: str, full_s: float) -> None:
        self._free_s[name] = full_s
        self._free_s.move_to_end(name)
        while len(self._free_s) > self.max_names:
            self._free_s.popitem(last=False)


@dataclass(kw_only=True)
class Queue:
    """Lets `per_s` requests through a second and tells each of the others its own later time to come.

    After an outage a thousand hosts come at once; told all the same, they would all come again at once.
    """

    per_s: float
    ticks: Callable[[], float]
    _next_s: float = float("-inf")
    _tail_s: float = float("-inf")

    def wait_s(self) -> float:
        """0 if this one may go on, else the time until its place; the places lie `1 / per_s` apart."""
        if self.per_s <= 0:
            return 0.0
        now_s, each_s = self.ticks(), 1.0 / self.per_s
        if now_s >= self._next_s:
            self._next_s = max(self._next_s + each_s, now_s + each_s - 1.0)  # up to a second's worth at once
            return 0.0
        place_s = max(self._tail_s, self._next_s) + each_s
        if place_s - now_s > MAX_WAIT_S:
            place_s = self._next_s + each_s  # begin again at the front
        self._tail_s = place_s
        return place_s - now_s
