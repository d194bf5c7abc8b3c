"""Windows that came too late for a verdict: their numbers and their place in the history, and no incident.

After an outage hosts send what they kept. What began and ended meanwhile is worth knowing and wakes nobody up;
what still lasts shows in the windows of now.
"""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.history import Rolling
from argus.analytics.numbers import window_numbers
from argus.analytics.store import history, progress
from argus.analytics.store.lateness import LateWindow, late_windows, mark_late
from argus.api.analysis import Means
from argus.api.stored_window import read_window
from argus.topology.layout import Topology, build

WAIT_S = 600.0
"""How long a late window waits for its other ranks: hosts replay in turn, not together."""

AT_ONCE = 1
"""Late windows looked at in one turn, a second apart: those of now come first, and one of 10,240 ranks takes a second."""

NO_LAYOUT = "no layout record of this attempt came in"


def take_up(means: Means, *, now_s: float) -> int:
    """Look at the next late windows; how many there were."""
    with means.store.read() as connection:
        found = late_windows(connection, before_s=now_s - WAIT_S, limit=AT_ONCE)
    topologies: dict[int, Topology | None] = {}
    for late in found:
        if late.attempt_id not in topologies:
            topologies[late.attempt_id] = _topology(means, late.attempt_id)
        _take(means, late, topologies[late.attempt_id], now_s=now_s)
    return len(found)


def _topology(means: Means, attempt_id: int) -> Topology | None:
    with means.store.read() as connection:
        layouts = progress.layouts_of(connection, attempt_id)
    return build(layouts) if layouts else None


def _take(means: Means, late: LateWindow, topology: Topology | None, *, now_s: float) -> None:
    try:
        if topology is None:
            raise ValueError(NO_LAYOUT)
        window = read_window(means.store, late.attempt_id, late.row, topology=topology, with_late=True)
        numbers = window_numbers(window)
        rolling = Rolling(topology=topology)
        rolling.add(numbers, time_s=late.made_s)
    except SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - it is written down at the window, and the next one is looked at
        means.metrics.analysed.labels(result="late_failed").inc()
        with means.store.write() as connection:
            mark_late(connection, late, now_s=now_s, error=f"{type(error).__name__}: {error}")
        return
    with means.store.write() as connection:
        mark_late(connection, late, now_s=now_s, coverage=window.coverage, numbers=numbers.to_bytes())
        history.add_parts(connection, [rolling.rows()])
    means.metrics.analysed.labels(result="late").inc()
