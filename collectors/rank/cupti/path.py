"""How buffers of activity records come from CUPTI to the parsing thread: one protocol, two ways."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from argus.collectors.rank.cupti.api import Api
from argus.collectors.rank.cupti.decode import Decoded
from argus.collectors.rank.cupti.kinds import (
    API_KINDS,
    COPY_NAMES,
    LAUNCH,
    MEMSET,
    MEMSET_NAME,
    WORK,
    WORK_KINDS,
)

OBJECT_BUFFER_BYTES = 1 << 20
MAX_LISTS = 24
"""Lists of records under way; 24 MiB of records, several times that as objects."""


class Path(Protocol):
    """Callbacks that only hand over, and `take` for the thread that parses."""

    name: str

    def register(self) -> None:
        """Make CUPTI call us. Raises api.Refused."""

    def take(self) -> Decoded | None:
        """The oldest buffer, decoded; None if there is none. Raises LayoutError."""

    def take_lost(self) -> int:
        """Buffers refused since the last call because too many were under way."""


class ObjectPath:
    """cupti-python's way: a buffer comes as a list of record objects, read by attribute."""

    name = "objects"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lists: deque[Sequence[object]] = deque()
        self._num_lost = 0

    def register(self) -> None:
        """Make CUPTI call us. Raises api.Refused."""
        self._api.register(self._requested, self._completed)

    def _requested(self) -> tuple[int, int]:
        return OBJECT_BUFFER_BYTES, 0

    def _completed(self, records: Sequence[object]) -> None:
        if len(self._lists) >= MAX_LISTS:
            self._num_lost += len(records)
        else:
            self._lists.append(records)

    def take(self) -> Decoded | None:
        """The oldest list as arrays."""
        try:
            records = self._lists.popleft()
        except IndexError:
            return None
        return decode_objects(records)

    def take_lost(self) -> int:
        """Records refused since the last call."""
        lost, self._num_lost = self._num_lost, 0
        return lost


class Record(Protocol):
    """What every work record of cupti-python has; kernels have `name`, copies `copy_kind`."""

    kind: int
    start: int
    end: int
    stream_id: int
    correlation_id: int
    graph_id: int


def decode_objects(records: Sequence[object]) -> Decoded:
    """The same arrays that the raw path makes; kinds that are not collected are passed over."""
    names: dict[str, int] = {}
    work: list[tuple[int, ...]] = []
    launches: list[tuple[int, int, int]] = []
    for record in records:
        kind = int(record.kind)  # type: ignore[attr-defined]
        if kind in WORK_KINDS:
            work.append(_work(kind, record, names))  # type: ignore[arg-type]
        elif kind in API_KINDS:
            launches.append((record.correlation_id, record.start, record.end))  # type: ignore[attr-defined]
    return Decoded(
        work=np.array(work, WORK) if work else np.empty(0, WORK),
        launches=np.array(launches, LAUNCH) if launches else np.empty(0, LAUNCH),
        names=tuple(names),
    )


def _work(kind: int, record: Record, names: dict[str, int]) -> tuple[int, ...]:
    copy = getattr(record, "copy_kind", None)
    if copy is not None:
        text = COPY_NAMES.get(int(copy), "Memcpy")
    elif kind == MEMSET:
        text = MEMSET_NAME
    else:
        text = str(getattr(record, "name", ""))
    name = names.setdefault(text, len(names))
    when = (int(record.start), int(record.end))
    ids = (int(record.stream_id), int(record.correlation_id), int(record.graph_id))
    return (kind, *when, *ids, name, int(copy or 0))
