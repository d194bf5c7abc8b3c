"""Whether a cause was there before it could be told: in every window since the first that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.baseline import START_UP_WINDOWS, is_comparable
from argus.analytics.incident import Cause
from argus.analytics.robust import at
from argus.analytics.view import PAST_WINDOWS, Digest, View

UNEVEN_WORK = ("imbalance.",)
ELSEWHERE = ("link.", "stop.", "run.", "step.", "pipeline.", "unknown")
"""How classes begin whose size no window's own work tells."""

EACH, ON_AVERAGE = 0.5, 0.75
"""So much of what a suspect loses now it lost in every window before, and on the average of them: noise alone, or a
difference of healthy devices that a fault was added to, is rarely as large. What uneven work costs varies by more."""


def since_start(view: View, cause: Cause) -> Cause:
    """The cause from the first window on, where every one showed it; unchanged where one did not or was forgotten.

    The first windows are uneven by starting up: where they alone do not show it, it began with the first that does.
    """
    if view.digest is None or not view.past or len(view.past) >= PAST_WINDOWS:
        return cause
    now = _lost_s(view.digest, cause)
    if cause.fault_class.startswith(ELSEWHERE) or not now > 0 or now < EACH * cause.s_per_step:
        return cause  # of what is lost elsewhere, as in saves, own work tells no beginning
    if cause.onset_step <= view.past[0].first_step:
        return replace(cause, from_start_s=now)
    before = [d for d in view.past if d.first_step < cause.onset_step and is_comparable(d)]
    seen = [(digest, _lost_s(digest, cause)) for digest in before]
    shown = seen
    while shown and shown[0][0].index < START_UP_WINDOWS and shown[0][1] < EACH * now:
        shown = shown[1:]
    if not shown or not _is_alike([lost_s for _, lost_s in shown], now, cause):
        return cause
    if len(shown) < len(seen):
        return replace(cause, onset_step=shown[0][0].first_step)
    average_s = float(np.mean([lost_s for _, lost_s in shown]))
    return replace(cause, onset_step=_first_step(view.past, shown[0][0]), from_start_s=average_s)


def _is_alike(before: Sequence[float], now: float, cause: Cause) -> bool:
    """Whether as much was lost in earlier windows as now, seconds a step."""
    least = EACH if cause.fault_class.startswith(UNEVEN_WORK) else ON_AVERAGE
    return min(before) >= EACH * now and float(np.mean(before)) >= least * now


def _first_step(past: Sequence[Digest], shown: Digest) -> int:
    """First step of the window, or of those before it that nothing could be told of."""
    earlier = [digest for digest in past if digest.index < shown.index]
    return past[0].first_step if not any(map(is_comparable, earlier)) else shown.first_step


def _lost_s(digest: Digest, cause: Cause) -> float:
    """Seconds a step by which the suspects' own work exceeds their peers', of uneven work what it costs; 0 if unseen."""
    if cause.fault_class.startswith(UNEVEN_WORK):
        return 0.0 if digest.balance is None else digest.balance.lost_s
    rows = [at(digest.ranks, rank) for rank in cause.suspects]
    if not rows or min(rows) < 0:
        return 0.0
    return float(np.mean(np.nan_to_num(digest.own_s[rows] - digest.own_peers_s[rows])))
