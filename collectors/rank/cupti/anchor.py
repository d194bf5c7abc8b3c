"""CUPTI's clock against the rank's: measured, measured again, and by how much the two were off."""

from __future__ import annotations

from collections.abc import Callable

from argus.collectors.rank.clock import Clock

PERIOD_NS = 20_000_000_000
"""Three measurements within the minute that is promised: one may fall into a stall."""

READS = 9  # the tightest of a few brackets, as the rank's own clock is anchored


class Anchor:
    """Offset to add to CUPTI's times.

    >>> anchor = Anchor(now_ns=lambda: 1_000, cupti_ns=lambda: 400)
    >>> anchor.measure(); anchor.offset_ns
    600
    """

    def __init__(self, *, now_ns: Clock, cupti_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._cupti_ns = cupti_ns
        self.offset_ns = 0
        self.residual_ns = 0
        self._at_ns: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether the offset has to be measured now."""
        return self._at_ns is None or self._now_ns() - self._at_ns >= PERIOD_NS

    def measure(self) -> None:
        """Measure; `residual_ns` is how far the offset before was off, 0 the first time."""
        best_width, offset_ns = 1 << 62, 0
        for _ in range(READS):
            before = self._now_ns()
            cupti = self._cupti_ns()
            after = self._now_ns()
            if after - before < best_width:
                best_width, offset_ns = after - before, before + (after - before) // 2 - cupti
        self.residual_ns = 0 if self._at_ns is None else offset_ns - self.offset_ns
        self.offset_ns, self._at_ns = offset_ns, self._now_ns()
