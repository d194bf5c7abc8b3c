"""What Argus costs in a run, from steps with channels off beside steps with them on."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from argus.collectors.host.dump_cost import DumpLedger
from argus.collectors.records.channels import ALL, BLOCK_STEPS, SHADOWED, is_profiled, shadowed
from argus.collectors.records.cost import Cost
from argus.collectors.records.events import EXCLUDED_FLAGS, FLAG_PROFILED, FLAG_SHADOW, Rows

MAX_PAIRS = 512
"""Disturbed steps remembered per channel: 25,000 steps of the run."""

TRIM = 0.2
"""Share of the pairs left out on each side: a checkpoint or a tenant's burst hits single steps."""

Z95 = 1.96

Seen = tuple[int, int]
"""Duration in ns and flags of a step."""


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
        self._last: dict[int, dict[int, Seen]] = {}
        self._pairs: dict[str, OrderedDict[int, dict[int, float]]] = {}
        self.dumps = DumpLedger()
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
        self._last[rank] = {step: seen for step, seen in known.items() if step >= newest - 2}
        self.dumps.add(rank, steps)

    def _pair(self, rank: int, step: int, known: Mapping[int, Seen]) -> None:
        """What a disturbed step says, as far as the undisturbed ones around it are known."""
        flags = known[step][1]
        if flags & EXCLUDED_FLAGS & ~(FLAG_SHADOW | FLAG_PROFILED):
            return
        if flags & FLAG_SHADOW and flags & FLAG_PROFILED:
            return  # operators were sampled in a shadow step: it tells neither
        if flags & FLAG_SHADOW:
            channel, ratio = shadowed(self._run, step), _without(step, known)
        else:
            channel, ratio = ("modules" if is_profiled(self._run, step) else ""), _sampled(step, known)
        if not channel or ratio is None:
            return
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
        """Cost by channel, spread over all steps where a channel is not in each; `all` is their sum."""
        sampled = {"modules": self._modules(), "stacks": self._stacks()}
        told = {name: cost for name, cost in sampled.items() if cost is not None}
        steady = {name: self._estimate(name) for name in (ALL, *SHADOWED)}
        found = {name: cost for name, cost in steady.items() if cost is not None}
        if ALL in found:
            found[ALL] = _sum(found[ALL], tuple(told.values()))
        return {**found, **told}

    def _estimate(self, channel: str) -> Cost | None:
        """From the disturbed steps of a channel; None while too few steps tell."""
        return estimate([fmean(ratios.values()) for ratios in self._pairs.get(channel, {}).values()])

    def _modules(self) -> Cost | None:
        cost = self._estimate("modules")
        return None if cost is None else _spread(cost, 1 / BLOCK_STEPS)

    def _stacks(self) -> Cost | None:
        cost = estimate(tuple(self.dumps.log_ratios().values()))
        return None if cost is None else _spread(cost, self.dumps.share)

    def forget(self) -> None:
        """Channels changed: what was measured belongs to the past."""
        self._pairs = {}
        self.dumps.forget()


def _usual(steps: Sequence[int], known: Mapping[int, Seen]) -> float | None:
    """Mean duration of steps that nothing disturbed; None if one is not known or was disturbed."""
    around = [known.get(step, (0, 0)) for step in steps]
    if any(dur_ns <= 0 or flags & EXCLUDED_FLAGS for dur_ns, flags in around):
        return None
    return fmean(dur_ns for dur_ns, _ in around)


def _without(step: int, known: Mapping[int, Seen]) -> float | None:
    """How much longer the steps around are than `step`, which did without something."""
    usual_ns, own_ns = _usual((step - 1, step + 1), known), known[step][0]
    return None if usual_ns is None or own_ns <= 0 else usual_ns / own_ns


def _sampled(step: int, known: Mapping[int, Seen]) -> float | None:
    """How much longer `step` is, which recorded more, together with what the next pays for the profiler's end."""
    usual_ns = _usual((step - 1, step + 2), known)
    paid_ns, flags = known.get(step + 1, (0, 0))
    if usual_ns is None or paid_ns <= 0 or flags & EXCLUDED_FLAGS & ~FLAG_PROFILED:
        return None
    own_ns = known[step][0] + paid_ns - usual_ns
    return own_ns / usual_ns if own_ns > 0 else None


def _spread(cost: Cost, share: float) -> Cost:
    """The cost over all steps of what is on in this share of them."""

    def over_all(ratio: float) -> float:
        return 1 + (ratio - 1) * share

    return Cost(ratio=over_all(cost.ratio), low=over_all(cost.low), high=over_all(cost.high), n=cost.n)


def _sum(steady: Cost, sampled: Sequence[Cost]) -> Cost:
    """What runs in every step and what does not together; their errors are independent."""
    parts = (steady, *sampled)
    ratio = steady.ratio + sum(cost.ratio - 1 for cost in sampled)
    below = math.hypot(*(cost.ratio - cost.low for cost in parts))
    above = math.hypot(*(cost.high - cost.ratio for cost in parts))
    return Cost(ratio=ratio, low=max(ratio - below, 0.0), high=ratio + above, n=steady.n)


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
