"""Read logs of Megatron-LM, DeepSpeed and torchtitan: step lines, timer tables of all ranks, straggler lines.

Step lines give the job's step times. A table of timers by rank (Megatron's `--timing-log-option all`, DeepSpeed's
`wall_clock_breakdown` on several ranks) gives each rank's phases. What else a line says of single ranks is kept as
what an observer saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from argus.collectors.readers import NothingFound, Reading
from argus.collectors.readers._lines import Line, Lines
from argus.collectors.readers._log_timers import Timers, rank_of
from argus.collectors.readers._step_lines import LINES, from_lines, has_step_lines
from argus.collectors.readers._straggler_line import Stragglers
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import Layout
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.series import StepSeries

IS_LOG = True

MAX_KEPT = 256 << 20
"""Characters of step lines kept: two million steps."""


def sniff(head: bytes, name: str) -> bool:
    """Text with a training framework's step lines; what begins like JSON is none."""
    return b"\0" not in head and head.lstrip()[:1] != b"{" and has_step_lines(head)


def read(path: Path) -> Iterator[Reading]:
    """The step times of the log, then each rank its timers told of. Raises ReaderError."""
    name = path.name.split(".")[0] or "log"
    found = _Found()
    lines = Lines(path)
    for line in lines:
        found.take(line)
    series, events = found.series(name), found.events()
    for index, one in enumerate(series):
        yield _plain(path, series=one, events=events if index == 0 else (), warnings=lines.warnings)
    ranks = found.timers.readings(source=path.name)
    yield from ranks
    if not series and (events or (ranks and lines.warnings)):
        yield _plain(path, events=events, warnings=lines.warnings)
    if not series and not ranks and not events:
        raise NothingFound(f"{path.name} holds no step line, no timer and no straggler line that is known")


def _plain(
    path: Path,
    *,
    series: StepSeries | None = None,
    events: tuple[OutsideEvent, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Reading:
    layout = Layout(
        run=series.name[:256] if series else "log", attempt=0, rank=0, world_size=1, source="training_log"
    )
    records = RankRecords(layout=layout)
    return Reading(records=records, source=path.name, series=series, events=events, warnings=warnings)


@dataclass(kw_only=True)
class _Found:
    """What the lines so far hold."""

    kept: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    timers: Timers = field(default_factory=Timers)
    stragglers: Stragglers = field(default_factory=Stragglers)
    num_kept: int = 0

    def take(self, line: Line) -> None:
        text = line.text
        if self.timers.take(line) or self.stragglers.take(text):
            return
        if self.num_kept < MAX_KEPT and is_step_line(text):
            self.kept[line.rank].append(text)
            self.num_kept += len(text)

    def series(self, name: str) -> list[StepSeries]:
        """One series a rank that printed step lines."""
        told = {rank: from_lines("\n".join(lines), name) for rank, lines in sorted(self._by_rank().items())}
        several = len(told) > 1
        return [
            StepSeries(
                name=f"{one.name}/rank {rank}"[:256] if several and rank >= 0 else one.name,
                values_s=one.values_s,
                interval=one.interval,
                first_step=one.first_step,
                unit=one.unit,
                steps=one.steps,
            )
            for rank, found in told.items()
            for one in found
        ]

    def _by_rank(self) -> dict[int, list[str]]:
        """The kept lines, DeepSpeed's timers of several ranks apart: in turn they would be a pattern of their own."""
        if not self.timers.are_of_ranks:
            return self.kept
        apart: dict[int, list[str]] = defaultdict(list)
        for rank, lines in self.kept.items():
            for text in lines:
                apart[rank if rank >= 0 else rank_of(text)].append(text)
        return apart

    def events(self) -> tuple[OutsideEvent, ...]:
        """What was said of single ranks."""
        return (*self.stragglers.events(), *self.timers.events())


_HINTS = ("elapsed time per iteration", "CurrSamplesPerSec", "time (ms) |", "iter time (s):", "step:", "tps:")


def is_step_line(text: str) -> bool:
    """Whether a line states a step's time, by the framework that prints such lines."""
    if not any(hint in text for hint in _HINTS):
        return False
    body = text.encode("utf-8", "replace")
    return any(line.search(body) for line in LINES)
