"""Where hosts wait for orders: one look at the database a second, however many wait."""

from __future__ import annotations

from collections.abc import Callable

from anyio import current_time, sleep, to_thread

from argus.analytics.store import orders
from argus.analytics.store.engine import Store
from argus.analytics.store.queries import Json

LOOK_S = 1.0


class Board:
    """Used from the event loop; `close` ends every wait."""

    def __init__(self, *, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._newest = 0
        self._looked_s = float("-inf")
        self._is_closed = False

    def close(self) -> None:
        """Nobody waits any more; safe in a signal handler."""
        self._is_closed = True

    def forget(self) -> None:
        """Another database is in the place of a damaged one: its orders are numbered anew."""
        self._newest, self._looked_s = 0, float("-inf")

    @property
    def is_closed(self) -> bool:
        """The service ends: who waits, for orders or for news, goes and comes back later."""
        return self._is_closed

    async def wait(self, host: str, *, after: int, wait_s: float) -> list[Json]:
        """Orders of `host` beyond number `after`, as soon as there are some, after `wait_s` anyway."""
        seen = -1
        end_s = current_time() + wait_s  # a wall clock that is set back would hold everybody
        while True:
            await self._look()
            if self._newest != seen and self._newest > after:
                seen = self._newest
                found = await to_thread.run_sync(self._find, host, after)
                if found:
                    return found
            if self._is_closed or current_time() >= end_s:
                return []
            await sleep(min(LOOK_S, max(end_s - current_time(), 0.0)))

    async def _look(self) -> None:
        now_s = self._clock()
        if 0 <= now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        self._newest = await to_thread.run_sync(self._read_newest)

    def _read_newest(self) -> int:
        with self._store.read() as connection:
            return orders.newest_order(connection)

    def _find(self, host: str, after: int) -> list[Json]:
        with self._store.read() as connection:
            return orders.orders_for(connection, host, after=after, now_s=self._clock())
