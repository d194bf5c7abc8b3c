"""Windows that came too late for a verdict: their numbers, their findings, their place in the history, no incident.

After an outage hosts send what they kept. What began and ended meanwhile is worth knowing and wakes nobody up;
what still lasts shows in the windows of now.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.finding import Evidence, Finding
from argus.analytics.history import Rolling
from argus.analytics.numbers import window_numbers
from argus.analytics.store import history, progress
from argus.analytics.store.lateness import LateWindow, late_windows, mark_late
from argus.analytics.store.relaunch import launch_of
from argus.analytics.window import Window
from argus.api.analysis import Means
from argus.api.complaints import plainly
from argus.api.course import Course
from argus.api.stored_window import read_window
from argus.topology.layout import Topology, build

LOG = logging.getLogger("argus.analysis")

WAIT_S = 600.0
"""How long a late window waits for its other ranks: hosts replay in turn, not together."""

AT_ONCE = 1
"""Late windows looked at in one turn, a second apart: those of now come first, and one of 10,240 ranks takes seconds."""

MAX_REPLAYS = 8
"""Attempts whose late windows are followed; of any other one they are judged without those before them."""

NO_LAYOUT = "no layout record of this attempt came in"
MARK = "came_late_s"
"""Evidence of every finding in a late window: how long after its time it came."""


@dataclass(frozen=True, kw_only=True)
class _Replay:
    """An attempt's late windows so far; what its course thinks of incidents is nobody's business."""

    course: Course
    last: int


class Late:
    """Looks at late windows, on the analysis thread; remembers what each attempt's earlier ones were like."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._replays: OrderedDict[int, _Replay] = OrderedDict()

    def forget(self) -> None:
        """Attempts are numbered anew, or another replica looks at them now."""
        self._replays.clear()

    def take_up(self, *, now_s: float) -> int:
        """Look at the next late windows; how many there were."""
        with self._means.store.read() as connection:
            found = late_windows(connection, before_s=now_s - WAIT_S, limit=AT_ONCE)
        for late in found:
            self._take(late, now_s=now_s)
        return len(found)

    def _take(self, late: LateWindow, *, now_s: float) -> None:
        means = self._means
        try:
            topology = self._topology(late.attempt_id)
            window = read_window(means.store, late.attempt_id, late.row, topology=topology, with_late=True)
            numbers = window_numbers(window)
            rolling = Rolling(topology=topology)
            rolling.add(numbers, time_s=late.made_s)
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - it is written down at the window, and the next one is looked at
            means.metrics.analysed.labels(result="late_failed").inc()
            with means.store.write() as connection:
                mark_late(connection, late, now_s=now_s, error=plainly(error))
            return
        findings, trouble = self._findings(late, window, topology=topology)
        with means.store.write() as connection:
            mark_late(
                connection,
                late,
                now_s=now_s,
                coverage=window.coverage,
                numbers=numbers.to_bytes(),
                error=trouble or None,
            )
            progress.add_findings(connection, late.attempt_id, findings, now_s=now_s)
            history.add_parts(connection, [rolling.rows()])
        means.metrics.analysed.labels(result="late_failed" if trouble else "late").inc()

    def _topology(self, attempt_id: int) -> Topology:
        with self._means.store.read() as connection:
            layouts = progress.layouts_of(connection, attempt_id)
        if not layouts:
            raise ValueError(NO_LAYOUT)
        return build(layouts)

    def _findings(self, late: LateWindow, window: Window, *, topology: Topology) -> tuple[list[Finding], str]:
        """What the detectors find in it, marked late; or nothing, and what one of them raised."""
        replay = self._replays.pop(late.attempt_id, None)
        if replay is None or replay.last >= window.index:
            with self._means.store.read() as connection:
                launch = launch_of(connection, window.run, attempt_id=late.attempt_id)
            course = self._means.analyses.begin(window.run, window.attempt, launch=launch)
            replay = _Replay(course=course, last=-1)
        try:
            look = replay.course.look(topology=topology, now_s=late.made_s, window=window, beats=())
        except SQLAlchemyError:
            raise
        except Exception as error:
            LOG.error("analysis failed on a late window of %r", window.run, exc_info=error)
            self._means.metrics.errors.labels(part="late").inc()
            return [], plainly(error)
        self._replays[late.attempt_id] = _Replay(course=look.course, last=window.index)
        while len(self._replays) > MAX_REPLAYS:
            self._replays.popitem(last=False)
        age_s = max(late.row.opened_s - late.made_s, 0.0)
        mark = Evidence(name=MARK, value=age_s, unit="s", note="for the history only: no incident, no notice")
        return [replace(one, evidence=(*one.evidence, mark)) for one in look.findings], ""
