"""Which hosts have introduced their ranks again since a damaged database was replaced."""

from __future__ import annotations

from collections.abc import Iterable

from argus.analytics.store.gate import Unavailable
from argus.collectors.records.heartbeat import Heartbeat


class Introductions:
    """A host sends its layouts again after every request that was answered 503, and only then.

    So once another database is in place, each host's first heartbeats are answered so: what it said of its ranks
    may be among what was lost. A host that was not there before is asked in vain, which costs it half a second.
    """

    def __init__(self) -> None:
        self._is_asking = False
        self._asked: set[tuple[str, int, str]] = set()

    def ask(self) -> None:
        """Every host is asked once, from now on."""
        self._asked.clear()
        self._is_asking = True

    def check(self, beats: Iterable[Heartbeat]) -> None:
        """Raises Unavailable for heartbeats of a host that was not asked yet."""
        if not self._is_asking:
            return
        new = {(beat.run, beat.attempt, beat.host) for beat in beats} - self._asked
        if new:
            self._asked |= new
            raise Unavailable("the database was replaced: send the layouts of these ranks again")
