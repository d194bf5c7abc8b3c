"""What the runtimes of a window's ranks stated exactly, as arrays: a collection, a compilation, a wait, a mark, …"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class RuntimeEvent(NamedTuple):
    """One exact statement of the runtime."""

    rank: int
    kind: str
    step: int
    start_s: float
    dur_s: float
    value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class RuntimeEvents:
    """One row per event, in the order they came; all arrays (row,). `kind_code` indexes `kinds`.

    A window has one per rank and step, so they are made into objects only for those who go through them.
    """

    rank: Ints
    kind_code: Ints
    step: Ints
    start_s: Floats
    dur_s: Floats
    value: Floats
    kinds: tuple[str, ...]

    @staticmethod
    def of(events: Iterable[RuntimeEvent]) -> RuntimeEvents:
        """The table of some events.

        >>> one = RuntimeEvent(rank=3, kind="gc", step=7, start_s=1.0, dur_s=0.5, value=0.0)
        >>> list(RuntimeEvents.of([one])) == [one]
        True
        """
        rows = tuple(events)
        known: dict[str, int] = {}
        code = [known.setdefault(event.kind, len(known)) for event in rows]
        return RuntimeEvents(
            rank=np.array([event.rank for event in rows], np.int64),
            kind_code=np.array(code, np.int64),
            step=np.array([event.step for event in rows], np.int64),
            start_s=np.array([event.start_s for event in rows], np.float64),
            dur_s=np.array([event.dur_s for event in rows], np.float64),
            value=np.array([event.value for event in rows], np.float64),
            kinds=tuple(known),
        )

    def __len__(self) -> int:
        return len(self.rank)

    def __iter__(self) -> Iterator[RuntimeEvent]:
        kinds = map(self.kinds.__getitem__, self.kind_code.tolist())
        columns = (self.step, self.start_s, self.dur_s, self.value)
        rest = (column.tolist() for column in columns)
        return map(RuntimeEvent._make, zip(self.rank.tolist(), kinds, *rest, strict=True))

    @cached_property
    def by_kind(self) -> dict[str, RuntimeEvents]:
        """Events of each kind, the kinds in the order of their first."""
        codes, first = np.unique(self.kind_code, return_index=True)
        return {
            self.kinds[code]: self._only(self.kind_code == code) for code in codes[np.argsort(first)].tolist()
        }

    def of_kind(self, kind: str) -> RuntimeEvents:
        """Events of one kind, in their order."""
        return self.by_kind.get(kind, NONE)

    def _only(self, rows: Bools) -> RuntimeEvents:
        return RuntimeEvents(
            rank=self.rank[rows],
            kind_code=self.kind_code[rows],
            step=self.step[rows],
            start_s=self.start_s[rows],
            dur_s=self.dur_s[rows],
            value=self.value[rows],
            kinds=self.kinds,
        )


NONE = RuntimeEvents.of(())
"""Nothing was stated."""
