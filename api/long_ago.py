"""What an attempt's windows of long ago say of the whole job, read when the service takes it up again."""

from __future__ import annotations

import logging

import numpy as np
from sqlalchemy import Connection

from argus.analytics.baseline import START_UP_WINDOWS
from argus.analytics.eras import Eras, Stretch, eras_of, places
from argus.analytics.memory import told_in
from argus.analytics.numbers import WindowNumbers, job_times
from argus.analytics.store import incidents, progress
from argus.collectors.records.errors import WireError

LOG = logging.getLogger("argus.analysis")


def eras_before(connection: Connection, attempt_id: int, window: int) -> Eras:
    """What is remembered of the windows before one, of some of them alone: those of ten thousand ranks take a megabyte each."""
    every = progress.windows_before(connection, attempt_id, window=window)
    index, first_step, num_steps = np.array(every, np.int64).reshape(len(every), 3).T
    told = told_in(index, first_step + num_steps, incidents.all_incidents(connection, attempt_id))
    usual = ~told & (index >= START_UP_WINDOWS)
    rows = [row for row, is_usual in zip(every, usual.tolist(), strict=True) if is_usual]
    wanted = sorted({place for level in places(len(rows)) for place in level})
    place_of = {rows[place][0]: place for place in wanted}
    seen: dict[int, Stretch] = {}
    for index_of, packed in progress.packed_numbers(connection, attempt_id, list(place_of)):
        place = place_of[index_of]
        times = _read(packed, first_step=rows[place][1], num_steps=rows[place][2])
        if times is not None:
            seen[place] = times
    return eras_of(seen, num=len(rows), taken=window - 1)


def _read(packed: bytes, *, first_step: int, num_steps: int) -> Stretch | None:
    try:
        numbers = WindowNumbers.from_bytes(packed)
    except WireError as error:
        LOG.warning("the numbers of step %d cannot be read: %s", first_step, error)
        return None
    return job_times(numbers, first_step=first_step, num_steps=num_steps)
