"""Which processes a trace holds the events of, and which rank each says it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from argus.collectors.readers._columns import OPERATORS

Event = Mapping[str, Any]

MAX_PROCESSES = 100_000
"""Remembered at most; a rank has a dozen."""

_RANK = re.compile(r"(?:^|[^a-z])rank[-_.=: ]?(\d{1,7})(?!\d)", re.IGNORECASE)
_LABELS = {"process_name": "name", "process_labels": "labels"}


class Processes:
    """Filled while the events go by: `ranks` by process, `workers` = processes that ran operators."""

    def __init__(self) -> None:
        self.ranks: dict[str, int] = {}
        self.workers: set[str] = set()

    def seen(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, noted on the way."""
        for event in events:
            if event.get("ph") == "M":
                self._name(event)
            elif isinstance(kind := event.get("cat"), str) and kind.lower() in OPERATORS:
                self._work(event)
            yield event

    @property
    def is_merged(self) -> bool:
        """Whether several ranks are in the trace and say so."""
        return len(set(self.ranks.values())) > 1

    def rank_of(self, event: Event) -> int | None:
        """The rank whose event this is, None if its process does not say."""
        pid = event.get("pid")
        known = self.ranks.get(str(pid))
        return _rank_in(pid) if known is None and isinstance(pid, str) else known

    def _name(self, event: Event) -> None:
        key, args = _LABELS.get(str(event.get("name"))), event.get("args")
        if key is not None and isinstance(args, dict):
            self._rank(str(event.get("pid")), str(args.get(key))[:1000])

    def _work(self, event: Event) -> None:
        pid = str(event.get("pid"))
        if pid not in self.workers and len(self.workers) < MAX_PROCESSES:
            self.workers.add(pid)
            self._rank(pid, pid)

    def _rank(self, pid: str, text: str) -> None:
        rank = _rank_in(text)
        if rank is not None and len(self.ranks) < MAX_PROCESSES:
            self.ranks[pid] = rank


def _rank_in(text: str) -> int | None:
    match = _RANK.search(text)
    return int(match.group(1)) if match else None
