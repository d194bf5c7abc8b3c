"""Telling a service that stood still from hosts that are silent: a thread that looks at the clock and the store each second."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store.engine import Store

BEAT_S = 1.0

STALL_S = 5.0
"""Two beats so far apart: the machine slept, the clock jumped or the store stood still, and nobody's silence counts."""


class Pulse:
    """Beats on a thread of its own: whoever works may stand still in the middle of it, and cannot tell from hard work."""

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._last_s: float | None = None
        self._has_missed = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="argus-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def beat(self) -> None:
        """One beat, once the store could be written to: what hosts say could not be kept before."""
        try:
            self._store.wait_for_turn()
        except SQLAlchemyError:
            return
        now_s = self._clock()
        with self._lock:
            if self._last_s is not None and not 0 <= now_s - self._last_s <= STALL_S:
                self._has_missed = True
            self._last_s = now_s

    def take_missed(self, now_s: float) -> bool:
        """Whether beats were missed since last asked, or are being missed."""
        with self._lock:
            is_late = self._last_s is not None and abs(now_s - self._last_s) > STALL_S
            missed, self._has_missed = self._has_missed or is_late, False
            return missed

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.beat()
            self._stopping.wait(BEAT_S)
