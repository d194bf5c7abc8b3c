"""Numbers the processor keeps of itself, shared by its threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class Counters:
    """Values by (metric, label value).

    >>> counters = Counters()
    >>> counters.add("argus_collector_windows_total", amount=2)
    >>> counters.get("argus_collector_windows_total")
    2.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}

    def add(self, name: str, label: str = "", *, amount: float = 1.0) -> None:
        """Count up."""
        with self._lock:
            self._values[name, label] = self._values.get((name, label), 0.0) + amount

    def set(self, name: str, value: float, *, label: str = "") -> None:
        """Set a gauge."""
        with self._lock:
            self._values[name, label] = value

    def get(self, name: str, label: str = "") -> float:
        """The value, 0 if it was never touched."""
        with self._lock:
            return self._values.get((name, label), 0.0)

    def snapshot(self) -> Mapping[tuple[str, str], float]:
        """All values now."""
        with self._lock:
            return dict(self._values)
