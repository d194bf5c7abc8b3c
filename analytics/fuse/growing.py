"""Whether a job's windows grow longer one after another: a level, then a line that rises from a window on.

A fit of both in one, the window where they meet chosen by least squares (segmented regression: D. J. Hudson, Fitting
segmented curves whose join points have to be estimated, 1966). What grows without an end has no second level, and
told as two levels it is told late: half of what it has grown by is on the lower one. Where two levels leave less than
the line does, they are the better account.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats

BEFORE, AFTER = 4, 5
"""Windows of the level, and of the line: fewer lie on a line by chance."""

SCALES = 4.0
"""What has been grown by now against the spread of windows beside the fit."""

VISIBLE = 2.0
"""Spreads above the level from which a window is said to have left it."""

HALF = 0.5
"""No window of the level reaches half of what has been grown by, and none of the last third of the line is below."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Logarithms of the `before` level and of the line's end `now`; `place` = first window that left the level."""

    before: float
    now: float
    place: int


def growth_of(logs: Floats, *, error: float, least: float) -> Growth | None:
    """The growth of windows (window,) by `least` or more, which their own spread or `error` does not explain.

    >>> grown = growth_of(np.array([0.0] * 8 + [0.01 * n for n in range(1, 9)]), error=0.002, least=0.05)
    >>> grown.place, round(grown.now, 2)
    (8, 0.08)
    """
    if len(logs) < BEFORE + AFTER:
        return None
    fits = [_fit(logs, meet) for meet in range(BEFORE, len(logs) - AFTER + 1)]
    meet, line = min(fits, key=lambda fit: float(((logs - fit[1]) ** 2).sum()))
    if ((logs - line) ** 2).sum() >= _rest_of_two(logs):
        return None
    before, now = float(line[0]), float(line[-1])
    spread = max(float(np.std(logs - line, ddof=2)), error)
    middle = before + HALF * (now - before)
    last = logs[len(logs) - max((len(logs) - meet) // 3, 2) :]
    is_growth = now - before >= max(least, SCALES * spread) and logs[:meet].max() < middle <= last.min()
    visible = np.flatnonzero(line >= before + VISIBLE * spread)
    return Growth(before=before, now=now, place=int(visible[0])) if is_growth else None


def _rest_of_two(logs: Floats) -> float:
    """What two levels leave, split where they leave least."""
    return min(float(logs[:at].var() * at + logs[at:].var() * (len(logs) - at)) for at in range(1, len(logs)))


def _fit(logs: Floats, meet: int) -> tuple[int, Floats]:
    """Level and line that meet before the window `meet`, by least squares."""
    x = np.maximum(np.arange(len(logs)) - (meet - 1), 0.0)
    y, x_off = logs - logs.mean(), x - x.mean()
    slope = float((x_off * y).sum() / (x_off * x_off).sum())
    return meet, np.asarray(logs.mean() + slope * x_off)
