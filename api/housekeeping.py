"""What is let go of, tier by tier, a part each turn so that uploads never wait long."""

from __future__ import annotations

from argus.analytics.store.kernels import PRUNED_AT_ONCE, prune_kernels, prune_names
from argus.analytics.store.orders import prune_captures
from argus.analytics.store.retention import prune_numbers, prune_rank_windows
from argus.api import historian
from argus.api.analysis import Means

LOOK_EVERY_S = 600.0
"""How often old rows are looked for; retention is hours at least."""

LOOKS_PER_KEEP = 4
"""Where raw windows are kept for less than an hour, they are looked for so often in that time."""


class Housekeeping:
    """Called in every turn of the analysis thread of the service that leads."""

    def __init__(self, means: Means, *, now_s: float) -> None:
        self._means = means
        self._every_s = min(LOOK_EVERY_S, means.settings.keep_windows_s / LOOKS_PER_KEEP)
        self._due_s = now_s + self._every_s

    def turn(self, now_s: float) -> bool:
        """Let go of a part of what is too old or too much, if it is time; whether there is more of it."""
        if 0 < self._due_s - now_s <= self._every_s:  # more than that: the clock was set back
            return False
        settings = self._means.settings
        with self._means.store.write() as connection:
            more = prune_rank_windows(
                connection,
                before_s=now_s - settings.keep_windows_s,
                max_bytes=settings.keep_windows_bytes,
            )
        with self._means.store.write() as connection:
            gone = prune_kernels(
                connection, before_s=now_s - settings.kernel_keep_s, max_bytes=settings.kernel_keep_bytes
            )
        with self._means.store.write() as connection:
            named = prune_names(connection, before_s=now_s - settings.kernel_keep_s)
        with self._means.store.write() as connection:
            more |= prune_captures(
                connection,
                before_s=now_s - settings.keep_observations_s,
                max_bytes=settings.keep_captures_bytes,
            )
        with self._means.store.write() as connection:
            more |= prune_numbers(connection, before_s=now_s - settings.keep_numbers_s)
        if more or PRUNED_AT_ONCE in (gone, named):
            return True
        historian.forget(self._means, now_s=now_s)
        self._due_s = now_s + self._every_s
        return False
