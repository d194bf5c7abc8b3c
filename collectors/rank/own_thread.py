"""Threads of ours in the training process: no hook that the program sets for its threads runs in them."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


class OwnThread:
    """A daemon thread past `threading.setprofile` and `threading.settrace`.

    A user's profiler would count us as work of the program, and one that raises would end us before our first line.
    """

    def __init__(self, target: Callable[[], None], *, name: str) -> None:
        self._target = target
        self._name = name
        self._ident = 0
        self._ended = threading.Event()
        self._ended.set()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in it."""
        return self._ident == threading.get_ident()

    def start(self) -> None:
        """Begin. RuntimeError if the system gives no thread, for want of memory or of processes."""
        self._ended.clear()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._ended.set()
            raise

    def join(self, timeout_s: float) -> None:
        """Wait until it ended, was never started, or the time is over."""
        self._ended.wait(timeout_s)

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            threading.current_thread().name = self._name  # by which stack dumps know it
            self._target()
        finally:
            self._ended.set()
