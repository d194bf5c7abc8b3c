"""Numbers the processor keeps of itself, shared by its threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping

MAX_LABELS = 64
"""Values one metric's label may take: reasons and kinds are few, what a peer sends may be many."""

OTHER = "other"


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
        self._num_labels: dict[str, int] = {}

    def add(self, name: str, label: str = "", *, amount: float = 1.0) -> None:
        """Count up."""
        with self._lock:
            key = self._key(name, label)
            self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, name: str, value: float, *, label: str = "") -> None:
        """Set a gauge."""
        with self._lock:
            self._values[self._key(name, label)] = value

    def get(self, name: str, label: str = "") -> float:
        """The value, 0 if it was never touched."""
        with self._lock:
            return self._values.get((name, label), 0.0)

    def snapshot(self) -> Mapping[tuple[str, str], float]:
        """All values now."""
        with self._lock:
            return dict(self._values)

    def _key(self, name: str, label: str) -> tuple[str, str]:
        """Where a value is kept: a label beyond the limit shares `other`."""
        if not label or (name, label) in self._values:
            return name, label
        count = self._num_labels.get(name, 0)
        if count >= MAX_LABELS:
            return name, OTHER
        self._num_labels[name] = count + 1
        return name, label
