"""Who uses the profiler of this process: the user's torch.profiler goes first, ours step aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Claims:
    """Whether a profiler that is not ours runs now, or ever ran in this process."""

    def __init__(self) -> None:
        self.is_claimed = False
        self.was_claimed = False
        self._ours = 0
        self._listeners: list[Callable[[], None]] = []

    def on_claim(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call before somebody else's profiler starts; returns what ends that."""
        self._listeners.append(call)
        return lambda: self._listeners.remove(call) if call in self._listeners else None

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What the profiler is asked for inside is not a claim."""
        self._ours += 1
        try:
            yield
        finally:
            self._ours -= 1

    def claim(self) -> None:
        """Somebody starts a profiler."""
        if self._ours or self.is_claimed:
            return
        self.is_claimed = self.was_claimed = True
        for call in list(self._listeners):
            call()

    def release(self) -> None:
        """It ended."""
        if not self._ours:
            self.is_claimed = False
