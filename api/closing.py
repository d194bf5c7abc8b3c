"""When a window closes: all ranks are in, or the rest will not come."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.store.progress import WindowRow

LATER_WINDOWS = 2
"""Complete later windows that prove a missing rank will not deliver: a host uploads in order, and one
upload overtaking another through a retry moves a window by one at most."""


def closing(
    windows: Sequence[WindowRow], *, world_size: int, now_s: float, grace_s: float, not_before_s: float
) -> list[int]:
    """Which of the open `windows` (in order) close now; never one before an earlier one.

    No incomplete window closes before `not_before_s`. Nothing closes while no layout said how many
    ranks to expect.
    """
    if not world_size:
        return []
    complete = [row.ranks_in >= world_size for row in windows]
    closed = []
    for position, row in enumerate(windows):
        overtaken = sum(complete[position + 1 :]) >= LATER_WINDOWS
        # A window opened in the future was so before the clock was set back: it has waited long enough.
        patient = 0 <= now_s - row.opened_s < grace_s and not overtaken
        if not complete[position] and (patient or now_s < not_before_s):
            break
        closed.append(row.window)
    return closed
