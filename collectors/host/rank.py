"""One rank as its host knows it: what it sent, kept across its connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from argus.collectors.host.buffer import WINDOWED, WindowBuffer
from argus.collectors.host.check import Checked
from argus.collectors.host.names import NameTable
from argus.collectors.host.window import cut_window
from argus.collectors.records.events import RankRecords, Rows
from argus.collectors.records.frames import ROW_KINDS, Kind
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow

Key = tuple[str, int, int]
"""Run, attempt, rank."""

MAX_NOTES = 64
MAX_REASONS = 64
"""Reasons one window may name."""


def key_of(layout: Layout) -> Key:
    """What names a rank of an attempt."""
    return (layout.run, layout.attempt, layout.rank)


class RankState:
    """The rank's layout, names, status, drop counts, open windows."""

    def __init__(self, layout: Layout, *, plan: WindowPlan, now_s: float) -> None:
        self.layout = layout
        self.names = NameTable()
        self.status: Status | None = None
        self.status_s = now_s
        self.has_ended = False
        self.num_rows = 0
        self._num_compressed = 0
        self._buffer = WindowBuffer(plan)
        self._notes: dict[str, None] = {}
        self._told: Mapping[str, int] = {}
        self._pending: Counter[str] = Counter()
        self._uncounted: Counter[str] = Counter()

    @property
    def last_step(self) -> int:
        """The last step known to be finished, -1 before the first."""
        return self._buffer.last_step

    def apply(self, checked: Checked, *, now_s: float) -> None:
        """Take one checked frame."""
        if checked.kind in ROW_KINDS:
            self._add(ROW_KINDS[checked.kind], checked)
        elif checked.layout is not None:
            self.layout = checked.layout
        elif checked.status is not None:
            self.status, self.status_s, self.has_ended = checked.status, now_s, False
        elif checked.drops is not None:
            self._take_drops(checked.drops)
        elif checked.note and len(self._notes) < MAX_NOTES:
            self._notes[checked.note] = None
        elif checked.kind == Kind.BYE:
            self.has_ended = True

    def lose(self, dropped: Mapping[str, int]) -> None:
        """Count records lost on this host; the next window tells."""
        self._uncounted.update(dropped)
        self._tell(dropped)

    def replan(self, plan: WindowPlan) -> None:
        """Follow the service's plan."""
        self._buffer.replan(plan)

    def cut(self, now_s: float) -> list[RankWindow]:
        """Windows complete by now."""
        return list(self._windows(self._buffer.take(now_s)))

    def cut_all(self) -> list[RankWindow]:
        """All windows, also incomplete ones: the rank is gone, or the processor goes."""
        return list(self._windows(self._buffer.take_all()))

    def take_compressed(self) -> int:
        """Kernel events compressed since last asked."""
        num, self._num_compressed = self._num_compressed, 0
        return num

    def take_lost(self) -> Counter[str]:
        """Records lost since last asked, by reason; `rank` are those the rank itself dropped."""
        self._settle()
        lost, self._uncounted = self._uncounted, Counter()
        return lost

    def _settle(self) -> None:
        dropped, self._buffer.dropped = self._buffer.dropped, Counter()
        self.lose(dropped)

    def _tell(self, dropped: Mapping[str, int]) -> None:
        for reason, count in dropped.items():
            is_known = reason in self._pending or len(self._pending) < MAX_REASONS - 1
            self._pending[reason if is_known else "other"] += count

    def _add(self, kind: str, checked: Checked) -> None:
        if checked.frame is None or checked.frame.rows is None:
            return
        self.num_rows += len(checked.frame.rows)
        if kind in WINDOWED:
            self._buffer.add(kind, checked.frame.rows)

    def _take_drops(self, drops: Mapping[str, int]) -> None:
        """Counts are cumulative; one that fell belongs to a sender that began anew."""
        new = {
            reason: count - self._told.get(reason, 0) if count >= self._told.get(reason, 0) else count
            for reason, count in drops.items()
        }
        self._told = drops
        self._uncounted["rank"] += sum(new.values())
        self._tell({reason: count for reason, count in new.items() if count})

    def _windows(self, taken: Iterable[tuple[int, Mapping[str, Rows]]]) -> Iterator[RankWindow]:
        for index, rows in taken:
            if "steps" not in rows:
                self._buffer.dropped["no_step"] += sum(map(len, rows.values()))
                continue
            self._settle()
            steps, repeated = _distinct(rows["steps"])
            self.lose({"repeated_step": repeated} if repeated else {})
            records = RankRecords(
                layout=self.layout,
                names=self.names.all(),
                dropped=dict(self._pending),
                unseen=tuple(self._notes),
                looks=(),
                stacks=(),
                **{**rows, "steps": steps},
            )
            self._pending.clear()
            self._num_compressed += len(records.kernels)
            yield cut_window(records, self._buffer.plan, index)


def _distinct(steps: Rows) -> tuple[Rows, int]:
    """Each step once, in order, and how many rows repeated one."""
    _, first = np.unique(steps["step"], return_index=True)
    return steps[first], len(steps) - len(first)
