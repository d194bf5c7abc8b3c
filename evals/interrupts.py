"""Signals that end a run in order: the first one unwinds, the next ones do not disturb the cleaning."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise SystemExit once, meanwhile."""
    before = {number: signal.getsignal(number) for number in ENDING}

    def end(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    try:
        for number in ENDING:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
