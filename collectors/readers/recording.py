"""Read recordings: the frames a rank sent, as its host's processor kept them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from argus.collectors.host.check import Checked, Checker, first_layout
from argus.collectors.host.names import NameTable
from argus.collectors.host.recorder import END_NOTE
from argus.collectors.readers import Ending, ReaderError, Reading
from argus.collectors.readers._files import Inflated
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import DTYPES, RankRecords, Rows, empty
from argus.collectors.records.frames import ROW_KINDS, VERSION, Frame, FrameReader, Kind
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.host_look import HostLook
from argus.collectors.records.layout import Layout
from argus.collectors.records.stacks import StackDump, decode_stacks

MAX_ROW_BYTES = 4 << 30
"""Rows taken from one file: what the processor records at most on a host."""

MAX_LOOKS = 400_000
"""Looks of a host at a rank: one each two seconds for nine days."""

_START = b"Ag" + bytes([VERSION, Kind.LAYOUT])


def sniff(head: bytes, name: str) -> bool:
    """A LAYOUT frame, whatever the name."""
    return head.startswith(_START)


def read(path: Path) -> Iterator[Reading]:
    """The one rank of a recording; what was cut off or damaged is a warning. Raises ReaderError."""
    recording = _Recording(name=path.name)
    with Inflated(path) as source:
        try:
            while chunk := source.read():
                recording.feed(chunk)
        except (WireError, ReaderError) as error:
            recording.cut(f"{error}; only what lies before that is used")
        if source.cut:
            recording.cut(source.cut)
    yield recording.reading()


@dataclass(kw_only=True)
class _Recording:
    """What was read so far."""

    name: str
    frames: FrameReader = field(default_factory=FrameReader)
    names: NameTable = field(default_factory=NameTable)
    layout: Layout | None = None
    checker: Checker | None = None
    parts: dict[str, list[Rows]] = field(default_factory=dict)
    num_bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    looks: list[HostLook] = field(default_factory=list)
    stacks: list[StackDump] = field(default_factory=list)
    has_ended: bool = False
    is_cut: bool = False
    status: Status | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def ending(self) -> Ending:
        """Whether the rank's last words are in it."""
        if self.is_cut:
            return Ending.CUT
        if self.has_ended:
            return Ending.GOODBYE
        return Ending.FULL if END_NOTE in self.notes else Ending.OPEN

    def cut(self, text: str) -> None:
        """What follows in the file cannot be used."""
        self.is_cut = True
        self.warn(text)

    def warn(self, text: str) -> None:
        self.warnings.append(f"{self.name}: {text}")

    def feed(self, chunk: bytes) -> None:
        for frame in self.frames.feed(chunk):
            self.take(frame)

    def take(self, frame: Frame) -> None:
        if self.checker is None:
            self.layout = first_layout(frame)
            self.checker = Checker(self.layout, names=self.names)
            return
        if frame.kind in (Kind.HOST, Kind.STACKS):
            self.observe(frame.kind, frame.body or {})
            return
        checked = self.checker.check(frame)
        if checked.kind in ROW_KINDS:
            self.keep(checked)
        self.has_ended = checked.kind == Kind.BYE
        self.layout = checked.layout or self.layout
        self.status = checked.status or self.status
        self.dropped = self.dropped if checked.drops is None else checked.drops
        if checked.note:
            self.notes[checked.note] = None

    def observe(self, kind: Kind, body: dict[str, object]) -> None:
        """What the host saw of the rank, in order of time: one whose clock was set back begins anew."""
        if kind == Kind.HOST:
            look = HostLook.from_json(body)
            if self.looks and look.ts_s < self.looks[-1].ts_s:
                self.looks.clear()
            self.looks.append(look)
        else:
            self.stacks += [dump for dump in decode_stacks(body) if self.is_mine(dump)]
        if len(self.looks) > MAX_LOOKS or len(self.stacks) > MAX_LOOKS:
            raise WireError(f"holds more than {MAX_LOOKS} observations of its host")

    def is_mine(self, dump: StackDump) -> bool:
        """Whether a dump is of this recording's rank. Raises WireError if not."""
        layout = self.layout
        if layout is None or (dump.run, dump.attempt, dump.rank) != (layout.run, layout.attempt, layout.rank):
            raise WireError(f"a stack dump of rank {dump.rank} in the recording of another")
        return True

    def keep(self, checked: Checked) -> None:
        rows = checked.frame.rows if checked.frame is not None else None
        if rows is None:
            return
        self.num_bytes += rows.nbytes
        if self.num_bytes > MAX_ROW_BYTES:
            raise WireError(f"holds more than {MAX_ROW_BYTES >> 20} MiB of rows")
        self.parts.setdefault(ROW_KINDS[checked.kind], []).append(rows)

    def reading(self) -> Reading:
        """Everything, joined. ReaderError if the file does not even say which rank it is."""
        if self.layout is None or self.checker is None:
            why = self.warnings[0] if self.warnings else f"{self.name}: it is empty or cut short"
            raise ReaderError(f"{why}; the layout that names its rank is missing")
        if self.frames.pending and not self.warnings:
            self.cut("the end is cut off inside a record; the rest is used")
        for reason, count in self.checker.rejected.items():
            self.warn(f"{count} rows are left out as {reason}")
        if self.ending == Ending.OPEN and not self.warnings:
            self.warn("the rank said no goodbye: it was killed, failed or still runs")
        rows = {
            kind: np.concatenate(self.parts[kind]) if kind in self.parts else empty(kind) for kind in DTYPES
        }
        records = RankRecords(
            layout=self.layout,
            names=self.names.all(),
            steps=_each_once(rows["steps"]),
            phases=rows["phases"],
            collectives=rows["collectives"],
            kernels=rows["kernels"],
            events=rows["events"],
            dropped=self.dropped,
            unseen=tuple(self.notes),
            looks=tuple(self.looks),
            stacks=tuple(self.stacks),
        )
        return Reading(
            records=records,
            source=self.name,
            warnings=tuple(self.warnings),
            ending=self.ending,
            status=self.status,
        )


def _each_once(steps: Rows) -> Rows:
    _, first = np.unique(steps["step"], return_index=True)
    return steps[first]
