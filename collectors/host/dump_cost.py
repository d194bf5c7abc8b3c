"""What stack dumps cost a run, from the steps in which one was taken beside the steps around them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from statistics import fmean

import numpy as np

from argus.collectors.host.stack_plan import BASELINE_S
from argus.collectors.records.events import EXCLUDED_FLAGS, STEP, Rows

KEPT_STEPS = 512
"""Steps remembered of a rank: dumps are told up to 5 s late, and a window is cut as late."""

MAX_DUMPS = 512
"""Dumps remembered: of eight ranks, those of an hour."""


class DumpLedger:
    """A dump falls into a step and ends in it or in the next: both together against their neighbours."""

    def __init__(self) -> None:
        self._steps: dict[int, Rows] = {}
        self._waiting: dict[int, list[int]] = {}
        self._pairs: OrderedDict[tuple[int, int], tuple[float, float]] = OrderedDict()

    def dumped(self, rank: int, ts_ns: int) -> None:
        """A dump of `rank` began at `ts_ns` of its host's clock."""
        self._waiting.setdefault(rank, []).append(ts_ns)
        self._match(rank)

    def add(self, rank: int, steps: Rows) -> None:
        """Take a window's steps of one rank; windows come in order."""
        known = self._steps.get(rank, np.empty(0, STEP))
        self._steps[rank] = np.concatenate([known, steps])[-KEPT_STEPS:]
        self._match(rank)

    def log_ratios(self) -> Mapping[tuple[int, int], float]:
        """How much longer the step was, by (rank, time of the dump), as a logarithm."""
        return {at: ratio for at, (ratio, _) in self._pairs.items()}

    @property
    def share(self) -> float:
        """The part of a rank's steps that hold a dump at the steady rate of one a minute."""
        return fmean(usual_ns for _, usual_ns in self._pairs.values()) * 1e-9 / BASELINE_S

    def forget(self) -> None:
        """Channels changed: what was measured belongs to the past."""
        self._pairs.clear()
        self._waiting.clear()
        self._steps.clear()

    def _match(self, rank: int) -> None:
        steps, later = self._steps.get(rank, np.empty(0, STEP)), list[int]()
        for ts_ns in self._waiting.pop(rank, []):
            place = int(np.searchsorted(steps["start_ns"], ts_ns, "right")) - 1
            if place + 2 >= len(steps):
                later.append(ts_ns)
            elif place >= 1 and int(steps["end_ns"][place]) > ts_ns:
                self._pair(rank, ts_ns, steps[place - 1 : place + 3])
        if later:
            self._waiting[rank] = later[-MAX_DUMPS:]

    def _pair(self, rank: int, ts_ns: int, four: Rows) -> None:
        """`four` steps in order, the dump in the second."""
        if (np.diff(four["step"]) != 1).any() or (four["flags"] & EXCLUDED_FLAGS).any():
            return
        dur_ns = (four["end_ns"] - four["start_ns"]).astype(np.float64)
        usual_ns = float(dur_ns[0] + dur_ns[3]) / 2
        own_ns = float(dur_ns[1] + dur_ns[2]) - usual_ns
        if usual_ns <= 0 or own_ns <= 0:
            return
        self._pairs[rank, ts_ns] = (math.log(own_ns / usual_ns), usual_ns)
        while len(self._pairs) > MAX_DUMPS:
            self._pairs.popitem(last=False)
