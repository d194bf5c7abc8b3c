"""Layouts of attempts for charts: the analysis' own where it has one, else built once and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from argus.analytics.store import asked, progress
from argus.analytics.store.engine import Store
from argus.analytics.store.queries import Which
from argus.api.run_gauges import RunNow
from argus.topology.layout import Topology, build

MAX_KEPT = 8
"""Layouts kept: one of 10,000 ranks is some 50 MB."""


@dataclass(kw_only=True)
class Topologies:
    """Layouts by attempt; `live` tells the attempts that the analysis holds now, `leaves` the switch of a host."""

    store: Store
    live: Callable[[], tuple[RunNow, ...]]
    leaves: Mapping[str, str] = field(default_factory=dict)
    _kept: OrderedDict[tuple[int, tuple[float, int]], Topology] = field(
        default_factory=OrderedDict, repr=False
    )
    _lock: Lock = field(default_factory=Lock, repr=False)

    def of(self, which: Which) -> Topology | None:
        """The layout of an attempt; None while none has come in."""
        for now in self.live():
            if (now.run, now.attempt) == (which.run, which.attempt) and now.topology is not None:
                return now.topology
        with self.store.read() as connection:
            key = (which.id, asked.layouts_version(connection, which.id))
            with self._lock:  # two that ask at once build it once
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                layouts = progress.layouts_of(connection, which.id)
                if not layouts:
                    return None
                self._kept[key] = found = build(layouts)
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
                return found
