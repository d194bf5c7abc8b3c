"""Say each thing once, so that a fault in a loop does not fill a log."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Notices:
    """Lines about the processor's own troubles; a line of one kind comes again only after `clear`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def once(self, kind: str, text: str) -> None:
        """Say `text` unless something of this kind was said already."""
        with self._lock:
            if kind in self._said:
                return
            self._said.add(kind)
        self._say(text)

    def clear(self, kind: str, text: str) -> None:
        """The trouble is over: say so if it was reported."""
        with self._lock:
            if kind not in self._said:
                return
            self._said.discard(kind)
        self._say(text)
