"""The rank's clock: the host's wall clock, read once, carried on by the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns nanoseconds."""

ANCHOR_READS = 9  # the tightest of a few brackets: one alone may be cut by a context switch


def anchored_clock(*, wall_ns: Clock = time.time_ns, monotonic_ns: Clock = time.monotonic_ns) -> Clock:
    """A clock that shows wall time now and never jumps afterwards.

    >>> clock = anchored_clock(wall_ns=lambda: 1_000, monotonic_ns=lambda: 7)
    >>> clock()
    1000
    """
    best_width, offset = 1 << 62, 0
    for _ in range(ANCHOR_READS):
        before = monotonic_ns()
        wall = wall_ns()
        width = monotonic_ns() - before
        if width < best_width:
            best_width, offset = width, wall - before - width // 2

    def clock() -> int:
        return monotonic_ns() + offset

    return clock
