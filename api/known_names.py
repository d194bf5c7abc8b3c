"""Which kernel names the store is known to have, so that it is not asked for them with every window."""

from __future__ import annotations

import threading
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from argus.analytics.store.kernels import NAMES_SEEN_EVERY_S

MAX_NAMES = 1_000_000


class KnownNames:
    """Their hashes. All are forgotten now and then: a name in use is then asked for again, and counts as seen.

    What was read of one database is not remembered of another that was put in its place meanwhile.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._names: set[int] = set()
        self._since_s = 0.0

    def held(self, *, now_s: float) -> AbstractSet[int]:
        """The hashes, to be given back to `remember` with what was learned by them."""
        with self._guard:
            is_fresh = 0 <= now_s - self._since_s < NAMES_SEEN_EVERY_S
            if not is_fresh or len(self._names) >= MAX_NAMES:
                self._names, self._since_s = set(), now_s
            return self._names

    def remember(self, held: AbstractSet[int], found: Collection[AbstractSet[int]]) -> None:
        """Add `found`, unless all was forgotten since `held` was handed out."""
        with self._guard:
            if held is self._names:
                self._names.update(*found)

    def forget(self) -> None:
        """Another database may be in the place of the one that has them."""
        with self._guard:
            self._names = set()
