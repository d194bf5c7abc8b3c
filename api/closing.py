"""When a window closes: all ranks are in, or the rest will not come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from argus.analytics.store.progress import WindowRow

LATER_WINDOWS = 2
"""Complete later windows that prove a missing rank will not deliver: a host uploads in order, and one
upload overtaking another through a retry moves a window by one at most."""

STILL_SHARE, MOST_GRACES = 1 / 3, 4
"""After its grace a window waits on while ranks come in, one at least in so much of the grace, and for so many graces
in all: when this service is slow or the network is, half of the ranks would say less than all of them a little later."""


def closing(
    windows: Sequence[WindowRow],
    *,
    world_size: int,
    now_s: float,
    grace_s: float,
    not_before_s: float,
    grown_s: Mapping[int, float],
) -> list[int]:
    """Which of the open `windows` (in order) close now; never one before an earlier one.

    No incomplete window closes before `not_before_s`. Nothing closes while no layout said how many
    ranks to expect. `grown_s`: when each window was seen to grow, see `Growth`.
    """
    if not world_size:
        return []
    complete = [row.ranks_in >= world_size for row in windows]
    closed = []
    for position, row in enumerate(windows):
        overtaken = sum(complete[position + 1 :]) >= LATER_WINDOWS
        # A window opened in the future was so before the clock was set back: it has waited long enough.
        age_s, still_s = now_s - row.opened_s, now_s - grown_s.get(row.window, row.opened_s)
        grows = still_s < STILL_SHARE * grace_s and age_s < MOST_GRACES * grace_s
        patient = age_s >= 0 and (age_s < grace_s or grows) and not overtaken
        if not complete[position] and (patient or now_s < not_before_s):
            break
        closed.append(row.window)
    return closed


@dataclass
class Growth:
    """When each open window was last seen to grow, by how many ranks were in it."""

    _seen: dict[int, tuple[int, float]] = field(default_factory=dict)
    _was_busy: bool = False
    """The last look closed a window. Its analysis may have taken half a minute: what came in meanwhile was not seen."""

    def see(self, windows: Sequence[WindowRow], *, now_s: float) -> Mapping[int, float]:
        """The times by window; those not among the open `windows` are forgotten."""
        seen = {}
        for row in windows:
            first_s = now_s if self._was_busy else row.opened_s
            ranks_in, at_s = self._seen.get(row.window, (row.ranks_in, first_s))
            seen[row.window] = (row.ranks_in, now_s if row.ranks_in > ranks_in else at_s)
        self._seen = seen
        return {window: at_s for window, (_, at_s) in seen.items()}

    def closing(
        self,
        windows: Sequence[WindowRow],
        *,
        world_size: int,
        now_s: float,
        grace_s: float,
        not_before_s: float,
    ) -> list[int]:
        """Which of the open `windows` close now: see the function."""
        closed = closing(
            windows,
            world_size=world_size,
            now_s=now_s,
            grace_s=grace_s,
            not_before_s=not_before_s,
            grown_s=self.see(windows, now_s=now_s),
        )
        self._was_busy = bool(closed)
        return closed
