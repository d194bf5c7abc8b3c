"""One channel's measured cost: how much longer a step lasts with it than without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from argus.collectors.records.errors import WireError
from argus.collectors.records.number import finite
from argus.collectors.records.text import tame

MAX_CHANNELS = 32
MAX_RATIO = 1e6


@dataclass(frozen=True, kw_only=True)
class Cost:
    """`ratio` of step time with to without, its 95 % interval, and from how many disturbed steps."""

    ratio: float
    low: float
    high: float
    n: int

    def to_json(self) -> list[float]:
        """Ratio, low, high, n."""
        return [self.ratio, self.low, self.high, self.n]


def costs_to_json(costs: Mapping[str, Cost]) -> dict[str, list[float]]:
    """Costs by channel, JSON-ready."""
    return {channel: cost.to_json() for channel, cost in costs.items()}


def costs_from_json(raw: object) -> dict[str, Cost]:
    """Parse and check; nothing from a sender that measures nothing. Raises WireError."""
    if raw is None:
        return {}
    if not isinstance(raw, dict) or len(raw) > MAX_CHANNELS:
        raise WireError(f"overhead must be an object of at most {MAX_CHANNELS} channels")
    return {tame(channel, 64): _cost(value) for channel, value in raw.items()}


def _cost(raw: object) -> Cost:
    numbers = [finite(x) for x in raw] if isinstance(raw, list) and len(raw) == 4 else []
    told = [x for x in numbers if x is not None]
    if len(told) != 4:
        raise WireError("a channel's overhead must be [ratio, low, high, n]")
    ratio, low, high, n = told
    if not all(0 <= x <= MAX_RATIO for x in (ratio, low, high)) or not 0 <= n < 1 << 53:
        raise WireError(f"a channel's overhead is out of range: {ratio!r:.20}, n {n!r:.20}")
    return Cost(ratio=ratio, low=low, high=high, n=int(n))
