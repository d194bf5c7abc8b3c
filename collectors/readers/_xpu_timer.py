"""What the gauges of xpu_timer (DLRover) say of ranks: who hangs, whose kernels take longer than the others'."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from argus.collectors.readers._dcgm import SampleLike
from argus.collectors.records.layout import MAX_WORLD
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.text import tame

SOURCE = "xpu_timer"

SLOW = 1.1
"""A rank whose kernels take this many times the others' is told; kernels of equal GPUs differ by a few percent."""

MIN_RANKS = 4
"""Below it a median says nothing about the one that differs from it."""

MAX_TOLD = 200
_KERNELS = {
    "XPU_TIMER_MM_KERNEL_AVG_LATENCY": "matrix products",
    "XPU_TIMER_COLL_KERNEL_AVG_LATENCY": "collectives",
}
_HANG = "XPU_TIMER_COMMON_HANG"
_ALIKE = ("operation", "level", "dtype", "algorithm", "transport", "small")


def events_of_ranks(samples: Iterable[SampleLike]) -> tuple[OutsideEvent, ...]:
    """A sentence for each rank that hangs, or whose matrix products take longer than the others'."""
    groups: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    told: list[OutsideEvent] = []
    for sample in samples:
        name, rank = sample.name.upper(), rank_of(sample.labels)
        if rank is None or not math.isfinite(sample.value):
            continue
        if name == _HANG and sample.value > 0:
            text = "it hangs, by the timeout of xpu_timer"
            told.append(OutsideEvent(time_s=sample.time_s, node=f"rank:{rank}", source=SOURCE, text=text))
        elif name in _KERNELS and sample.value > 0:
            groups[(name, *(tame(sample.labels.get(key, ""), 40) for key in _ALIKE))][rank] = sample.value
    return (*told[:MAX_TOLD], *list(_slow(groups))[:MAX_TOLD])


def rank_of(labels: Mapping[str, str]) -> int | None:
    """The rank of a sample, None if it names none."""
    text = labels.get("rank", "")
    return int(text) if text.isdecimal() and len(text) < 8 and int(text) < MAX_WORLD else None


def _slow(groups: Mapping[tuple[str, ...], Mapping[int, float]]) -> Iterator[OutsideEvent]:
    for (name, operation, level, *_), by_rank in groups.items():
        usual = median(by_rank.values())
        if len(by_rank) < MIN_RANKS:
            continue
        for rank, value in sorted(by_rank.items()):
            if name.startswith("XPU_TIMER_MM") and value >= SLOW * usual:
                text = f"{_KERNELS[name]} ({operation}, level {level}) take {value:g} µs on average against {usual:g} µs"
            elif name.startswith("XPU_TIMER_COLL") and value * SLOW <= usual:
                # Whom the others wait for has the shortest collective.
                text = f"{_KERNELS[name]} ({operation}, level {level}) take {value:g} µs, the others' {usual:g} µs: they wait"
            else:
                continue
            yield OutsideEvent(time_s=0.0, node=f"rank:{rank}", source=SOURCE, text=text)
