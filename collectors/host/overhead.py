"""What Argus costs in a run, from steps with channels off beside steps with them on."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from argus.collectors.records.channels import ALL, BLOCK_STEPS, SHADOWED, is_profiled, shadowed
from argus.collectors.records.cost import Cost
from argus.collectors.records.events import EXCLUDED_FLAGS, FLAG_PROFILED, FLAG_SHADOW, Rows

MAX_PAIRS = 512
"""Disturbed steps remembered per channel: 25,000 steps of the run."""

TRIM = 0.2
"""Share of the pairs left out on each side: a checkpoint or a tenant's burst hits single steps."""

Z95 = 1.96


def estimate(log_ratios: Sequence[float]) -> Cost | None:
    """Trimmed mean with its 95 % interval (Yuen 1974: winsorised variance); None below 3 pairs.

    >>> cost = estimate([0.01] * 10)
    >>> round(cost.ratio, 4), cost.n
    (1.0101, 10)
    """
    n = len(log_ratios)
    cut = int(n * TRIM)
    if n - 2 * cut < 3:
        return None
    ordered = sorted(log_ratios)
    kept = ordered[cut : n - cut]
    middle = fmean(kept)
    flat = [kept[0]] * cut + kept + [kept[-1]] * cut
    center = fmean(flat)
    variance = sum((x - center) ** 2 for x in flat) / (n - 1)
    half = Z95 * math.sqrt(variance / n) / (1 - 2 * TRIM)
    return Cost(ratio=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half), n=n)


class Ledger:
    """Pairs of one attempt on one host. Ranks step together, so their mean makes one pair of a step."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._last: dict[int, dict[int, tuple[int, int]]] = {}
        self._pairs: dict[str, OrderedDict[int, dict[int, float]]] = {}
        self.newest_pair = -1
        """Highest step that made a pair of `all`: the cost is known anew when it moves."""

    def add(self, rank: int, steps: Rows) -> None:
        """Take a window's steps of one rank; windows come in order."""
        known = self._last.get(rank, {})
        known.update(
            (int(row["step"]), (int(row["end_ns"]) - int(row["start_ns"]), int(row["flags"])))
            for row in steps
        )
        for step in [step for step, (_, flags) in known.items() if flags & (FLAG_SHADOW | FLAG_PROFILED)]:
            self._pair(rank, step, known)
        newest = max(known, default=0)
        self._last[rank] = {step: seen for step, seen in known.items() if step >= newest - 1}

    def _pair(self, rank: int, step: int, known: Mapping[int, tuple[int, int]]) -> None:
        own_ns, flags = known[step]
        around = [known.get(step - 1), known.get(step + 1)]
        if any(seen is None or seen[1] & EXCLUDED_FLAGS or seen[0] <= 0 for seen in around) or own_ns <= 0:
            return
        if flags & EXCLUDED_FLAGS & ~(FLAG_SHADOW | FLAG_PROFILED):
            return
        if flags & FLAG_SHADOW and flags & FLAG_PROFILED:
            return  # operators were sampled in a shadow step: it tells neither
        usual_ns = fmean(seen[0] for seen in around if seen is not None)
        channel = shadowed(self._run, step) if flags & FLAG_SHADOW else "modules"
        if not channel or (channel == "modules" and not is_profiled(self._run, step)):
            return
        ratio = own_ns / usual_ns if channel == "modules" else usual_ns / own_ns
        pairs = self._pairs.setdefault(channel, OrderedDict())
        pairs.setdefault(step, {})[rank] = math.log(ratio)
        if channel == ALL:
            self.newest_pair = max(self.newest_pair, step)
        while len(pairs) > MAX_PAIRS:
            pairs.popitem(last=False)

    def num_pairs(self, channel: str = ALL) -> int:
        """Disturbed steps of `channel` that have undisturbed neighbours."""
        return len(self._pairs.get(channel, ()))

    def costs(self) -> dict[str, Cost]:
        """Cost by channel; `modules` is on in one step of a block, so its cost is spread over the block."""
        found = {channel: self.cost(channel) for channel in (ALL, *SHADOWED, "modules")}
        return {channel: cost for channel, cost in found.items() if cost is not None}

    def cost(self, channel: str = ALL) -> Cost | None:
        """Cost of one channel; None while too few steps tell."""
        cost = estimate([fmean(ratios.values()) for ratios in self._pairs.get(channel, {}).values()])
        return _spread(cost) if cost is not None and channel == "modules" else cost

    def forget(self) -> None:
        """Channels changed: what was measured belongs to the past."""
        self._pairs = {}


def _spread(cost: Cost) -> Cost:
    def over_block(ratio: float) -> float:
        return 1 + (ratio - 1) / BLOCK_STEPS

    return Cost(ratio=over_block(cost.ratio), low=over_block(cost.low), high=over_block(cost.high), n=cost.n)


def describe(costs: Mapping[str, Cost], *, off: Iterable[str] = ()) -> list[str]:
    """One line per channel for people.

    >>> describe({"all": Cost(ratio=1.004, low=0.998, high=1.010, n=64)}, off=("modules",))
    ['all: +0.4 % of step time (95 %: -0.2 to +1.0 %, n = 64)', 'modules: off, stepped down']
    """
    lines = [
        f"{channel}: {_percent(cost.ratio)} % of step time "
        f"(95 %: {_percent(cost.low)} to {_percent(cost.high)} %, n = {cost.n})"
        for channel, cost in costs.items()
    ]
    return lines + [f"{channel}: off, stepped down" for channel in off]


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"
