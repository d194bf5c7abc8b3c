"""Megatron-LM's straggler line: which ranks are at the ends of time, power, heat and clock.

`MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: … | MnPwr/Rnk: 601796W/8 | …` and `^^^^ Bottom 4 Ranks with lowest Etpt(TF):
296.02/0, …` (megatron/core/README_STRAGGLER.md). The power is that of NVML, in milliwatts, printed with a W.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from argus.collectors.records.outside_event import OutsideEvent

MAX_WATT = 10_000.0
"""No GPU draws more: a larger figure is in milliwatts."""

SLOW_CLOCK = 0.9
"""A clock below this share of the fastest rank's is told as such; boost clocks of equal GPUs differ by less."""

SOURCE = "straggler line"

_PAIR = re.compile(r"\b(Mn|Mx)(Rtt|Pwr|Tmp|Utl|Clk|DRtt|Etpt)/Rnk: ?(-?[\d.]+)(?:ms|W|C|%|MHz|TF)?/(\d{1,7})")
_BOTTOM = re.compile(r"\^\^\^\^ Bottom \d+ Ranks with lowest\s+Etpt\(TF\):(.*)")
_RANKED = re.compile(r"(-?[\d.]+)/(\d{1,7})")

WORDS = {
    "Rtt": ("time in the traced work", "ms"),
    "DRtt": ("time to get a batch", "ms"),
    "Pwr": ("GPU power", "W"),
    "Tmp": ("GPU temperature", "°C"),
    "Utl": ("GPU utilisation", "%"),
    "Clk": ("GPU clock", "MHz"),
    "Etpt": ("throughput", "TFLOP/s"),
}
LOW_IS_WORSE = frozenset({"Pwr", "Clk", "Utl", "Etpt"})
"""What a slow GPU has less of; of the others it has more."""


def watts(value: float) -> float:
    """Power as it is meant.

    >>> watts(601796.0), watts(601.8)
    (601.796, 601.8)
    """
    return value / 1000 if value > MAX_WATT else value


@dataclass(kw_only=True)
class _Extreme:
    """One end of one measure over all lines."""

    values: list[float] = field(default_factory=list)
    ranks: Counter[int] = field(default_factory=Counter)

    def take(self, value: float, rank: int) -> None:
        self.values.append(value)
        self.ranks[rank] += 1

    @property
    def rank(self) -> tuple[int, int]:
        """The rank most often at this end, and how often."""
        return min(self.ranks.items(), key=lambda item: (-item[1], item[0]))


@dataclass(kw_only=True)
class Stragglers:
    """All straggler lines of a log."""

    ends: dict[str, _Extreme] = field(default_factory=dict)
    bottom: Counter[int] = field(default_factory=Counter)
    num_lines: int = 0
    num_bottom: int = 0

    def take(self, text: str) -> bool:
        """Whether the line was one."""
        if "^^^^ Bottom" in text and (match := _BOTTOM.search(text)):
            self.num_bottom += 1
            ranked = [
                (value, int(rank))
                for raw, rank in _RANKED.findall(match[1])
                if (value := _number(raw)) is not None
            ]
            self.bottom.update([min(ranked)[1]] if ranked else [])
            return True
        pairs = _PAIR.findall(text) if "/Rnk:" in text else []
        for end, measure, raw, rank in pairs:
            value = _number(raw)
            if value is not None:
                value = watts(value) if measure == "Pwr" else value
                self.ends.setdefault(end + measure, _Extreme()).take(value, int(rank))
        self.num_lines += bool(pairs)
        return bool(pairs)

    def events(self) -> tuple[OutsideEvent, ...]:
        """A sentence for each measure about the rank that is at its worse end most often."""
        told = [event for measure in WORDS for event in self._of(measure)]
        if self.bottom:
            rank, count = min(self.bottom.items(), key=lambda item: (-item[1], item[0]))
            text = f"the slowest by throughput in {count} of {self.num_bottom} straggler reports"
            told.append(OutsideEvent(time_s=0.0, node=f"rank:{rank}", source=SOURCE, text=text))
        return tuple(told)

    def _of(self, measure: str) -> Iterator[OutsideEvent]:
        low, high = self.ends.get(f"Mn{measure}"), self.ends.get(f"Mx{measure}")
        if low is None or high is None:
            return
        worse, better = (low, high) if measure in LOW_IS_WORSE else (high, low)
        (rank, count), value, other = worse.rank, median(worse.values), median(better.values)
        name, unit = WORDS[measure]
        is_clock = measure == "Clk" and value < SLOW_CLOCK * other
        yield OutsideEvent(
            time_s=0.0,
            node=f"rank:{rank}",
            source=SOURCE,
            kind="clock" if is_clock else "",
            value=value if is_clock else None,
            text=f"{name} {value:.5g} {unit} against {other:.5g} {unit} at the other end, in {count} of "
            f"{self.num_lines} lines this rank",
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
