"""Checkpoints of a window: which rank's save took longest, beside what the others' took.

Steps that save are known and left out of every comparison, so a rank whose storage stands still while all save
is in none of them; yet its peers wait for it (incidents.md, J1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Window
from argus.collectors.records.events import FLAG_CHECKPOINT

PHASE = "checkpoint"


@dataclass(frozen=True, kw_only=True)
class Save:
    """One step's save: the rank that took longest, and the median of the others that saved."""

    step: int
    rank: int
    dur_s: float
    others_s: float

    @property
    def ratio(self) -> float:
        """How many times longer than the others the last one took."""
        return self.dur_s / self.others_s


def saves_of(window: Window) -> tuple[Save, ...]:
    """The saves in which most ranks took part: one rank that saves for all is no later than others."""
    if PHASE not in window.phases or len(window.ranks) < 2:
        return ()
    own = window.self_s[window.phases.index(PHASE)]
    found = []
    for column in np.flatnonzero((window.flags & np.uint32(FLAG_CHECKPOINT)) != 0):
        times = np.nan_to_num(own[:, column])
        row = int(times.argmax())
        others_s = float(np.median(np.delete(times, row)))
        if others_s > 0:
            found.append(
                Save(
                    step=int(window.steps[column]),
                    rank=int(window.ranks[row]),
                    dur_s=float(times[row]),
                    others_s=others_s,
                )
            )
    return tuple(found)
