"""What happened in a series of step times."""

from __future__ import annotations

from dataclasses import dataclass

from argus.analytics.series.period import Period


@dataclass(frozen=True, kw_only=True)
class Event:
    """What happened at values `start` to `end` of `series`: `got` against `expected`, in its unit.

    `scales` says how many standard errors it is large, `error` is the noise as in Level. `end` of a shift is where it was told; one that is placed better later is told again, `instead_of` the place
    of the first time.
    """

    kind: str
    series: int = 0
    start: int
    end: int
    got: float
    expected: float
    scales: float | None = None
    error: float | None = None
    period: Period | None = None
    instead_of: int | None = None

    @property
    def ratio(self) -> float:
        """Got over expected."""
        return self.got / self.expected
