"""A simulated rank as the recording its host would have made of it."""

from __future__ import annotations

from collections.abc import Iterator

from argus.collectors.records.events import DTYPES, RankRecords
from argus.collectors.records.frames import Kind, encode_json, encode_rows
from argus.collectors.records.stacks import encode_stacks


def rank_frames(records: RankRecords, *, steps_per_frame: int = 10, bye: bool = True) -> Iterator[bytes]:
    """Frames of one rank in the order of the wire: who it is, its strings, its rows, what its host saw, its end.

    >>> from argus.collectors.records.layout import Layout
    >>> stream = rank_frames(RankRecords(layout=Layout(run="r", attempt=0, rank=0, world_size=1)))
    >>> len(list(stream))
    3
    """
    yield encode_json(Kind.LAYOUT, records.layout.to_json())
    yield encode_json(Kind.STRINGS, {"first": 0, "names": list(records.names)})
    last = int(records.steps["step"].max()) if len(records.steps) else -1
    for first in range(0, last + 1, steps_per_frame):
        for name in DTYPES:
            rows = getattr(records, name)
            part = rows[(rows["step"] >= first) & (rows["step"] < first + steps_per_frame)]
            if len(part):
                yield encode_rows(name, part)
    for look in records.looks:
        yield encode_json(Kind.HOST, look.to_json())
    for dump in records.stacks:
        yield encode_json(Kind.STACKS, encode_stacks([dump]))
    if records.dropped:
        yield encode_json(Kind.DROPS, dict(records.dropped))
    if bye:
        yield encode_json(Kind.BYE, {})
