"""Each step's launch latency and host gap, put out once no more kernels of the step can come."""

from __future__ import annotations

import numpy as np

from argus.collectors.rank.ring import Ring
from argus.collectors.records.events import Rows, empty
from argus.collectors.records.launch_series import step_events

STEPS_BEHIND = 2
"""A step is over when kernels of the second step after it were seen: the GPU may be a step behind."""

MAX_ROWS = 1 << 18
"""Rows held at most; a step with more kernels is put out in the parts that fit."""


class Series:
    """Rows by step until the step is over."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._held = empty("kernels")
        self._done_step = -1

    def add(self, rows: Rows, *, is_last: bool = False) -> None:
        """Take over rows of GPU streams, put out what is complete."""
        held = np.concatenate([self._held, rows[rows["step"] > self._done_step]])
        if not len(held):
            return
        newest = int(held["step"].max())
        end = newest + 1 if is_last or len(held) > MAX_ROWS else newest - STEPS_BEHIND + 1
        over = held["step"] < end
        if over.any():
            self._done_step = int(held["step"][over].max())
            self._ring.put_block("events", step_events(held[over], intern=self._ring.intern))
        self._held = held[~over]
