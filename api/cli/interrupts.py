"""Signals that end a command in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit meanwhile, as SIGINT raises KeyboardInterrupt: what was begun is cleaned up.

    Not where they are ignored (`nohup`), nor outside the first thread, where Python takes no signals.
    """
    is_first = threading.current_thread() is threading.main_thread()
    ours = [one for one in ENDING if is_first and signal.getsignal(one) is signal.SIG_DFL]
    for one in ours:
        signal.signal(one, _end)
    try:
        yield
    finally:
        for one in ours:
            if signal.getsignal(one) is _end:  # a command that serves has its own
                signal.signal(one, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
