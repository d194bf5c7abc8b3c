"""What an attempt's windows of long ago say of the whole job, read when the service takes it up again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from argus.analytics.ballots import VOTE_WINDOWS
from argus.analytics.baseline import START_UP_WINDOWS
from argus.analytics.eras import Eras, Stretch, eras_of, places
from argus.analytics.incident import Incident
from argus.analytics.lifecycle import is_stop
from argus.analytics.numbers import WindowNumbers, job_times
from argus.analytics.store import incidents, progress
from argus.analytics.window import Bools, Ints
from argus.collectors.records.errors import WireError

LOG = logging.getLogger("argus.analysis")


def eras_before(connection: Connection, attempt_id: int, window: int) -> Eras:
    """What is remembered of the windows before one, of some of them alone: those of ten thousand ranks take a megabyte each."""
    rows = progress.windows_before(connection, attempt_id, window=window)
    told = _told(np.array(rows).reshape(len(rows), 3), incidents.all_incidents(connection, attempt_id))
    rows = [row for row, is_told in zip(rows, told.tolist(), strict=True) if not is_told]
    wanted = sorted({place for level in places(len(rows)) for place in level})
    place_of = {rows[place][0]: place for place in wanted}
    seen: dict[int, Stretch] = {}
    for index, packed in progress.numbers_of(connection, attempt_id, list(place_of)):
        _, first_step, num_steps = rows[place_of[index]]
        times = _read(packed, first_step=first_step, num_steps=num_steps)
        if times is not None:
            seen[place_of[index]] = times
    return eras_of(seen, num=len(rows), taken=window - 1)


def _told(rows: Ints, known: Sequence[Incident]) -> Bools:
    """Which windows, (window, 3) of index, first step and steps, say nothing of how fast the job is: start-up, and what an
    incident was about or led to it. (window,)"""
    index, end_step = rows[:, 0], rows[:, 1] + rows[:, 2]
    told = index < START_UP_WINDOWS
    for one in known:
        if is_stop(one):
            continue
        begun = index > one.opened_window - VOTE_WINDOWS if one.cause.suspects else end_step > one.onset_step
        told |= begun & ((index <= one.last_window) | (one.status == "open"))
    return np.asarray(told)


def _read(packed: bytes, *, first_step: int, num_steps: int) -> Stretch | None:
    try:
        numbers = WindowNumbers.from_bytes(packed)
    except WireError as error:
        LOG.warning("the numbers of step %d cannot be read: %s", first_step, error)
        return None
    return job_times(numbers, first_step=first_step, num_steps=num_steps)
