"""A fault from outside: stop and continue a process in a duty cycle."""

from __future__ import annotations

import os
import signal
import threading
from types import TracebackType
from typing import Self

STOPPED_S = 0.06
RUNNING_S = 0.03


class Pauser:
    """Sends SIGSTOP and SIGCONT to `pid` in turn until closed; always leaves it running."""

    def __init__(self, pid: int, *, stopped_s: float = STOPPED_S, running_s: float = RUNNING_S) -> None:
        self._pid = pid
        self._stopped_s = stopped_s
        self._running_s = running_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._cycle, name="pauser", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _cycle(self) -> None:
        try:
            while not self._end.is_set():
                os.kill(self._pid, signal.SIGSTOP)
                self._end.wait(self._stopped_s)
                os.kill(self._pid, signal.SIGCONT)
                self._end.wait(self._running_s)
        except ProcessLookupError:
            return  # the rank ended by itself
        finally:
            self._resume()

    def _resume(self) -> None:
        try:
            os.kill(self._pid, signal.SIGCONT)
        except ProcessLookupError:
            return  # gone: nothing is left stopped
