"""The last minutes of every rank as it sent them, on disk, bounded by size and age; pinned parts stay."""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from argus.collectors.host.counters import Counters
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key
from argus.collectors.host.recorder import encode
from argus.collectors.host.tape import Tape, num_rows_of
from argus.collectors.records.endpoint import private_directory
from argus.collectors.records.errors import WireError
from argus.collectors.records.frames import ROW_KINDS, Frame, FrameReader, Kind, encode_json
from argus.collectors.records.layout import Layout

DEFAULT_BYTES = 4 << 30
DEFAULT_AGE_S = 1800.0
FREE_SHARE = 0.1
"""Of what is free on the disk at the start: the directory may lie on a small or memory-backed one."""

SEGMENT_BYTES = 4 << 20
SEGMENT_S = 30.0
"""A segment is the unit of forgetting: some seconds of one rank."""

BUFFER_BYTES = 64 << 10
PIN_S = 86_400.0
MAX_PINS = 64
PINNED_SHARE = 0.5
"""Of the ring that pins may hold; the present must keep room."""

MAX_EXTRACT_BYTES = 128 << 20
"""Of one rank in one recording. The ring may hold gigabytes of it, a service takes 64 MiB compressed, and what is sent
lies in memory beside the job's."""

CUT_NOTE = "what came after the recording of these steps had reached its size limit"
MAX_NOTES = 64
KEPT = frozenset({Kind.STRINGS, Kind.NOTE, *ROW_KINDS})


@dataclass(kw_only=True)
class Segment:
    """A file with part of one rank's stream, readable alone. Steps are those its rows name."""

    path: Path
    key: Key
    process: tuple[
        int, int
    ]  # its PID, and when it began: of a run launched anew ranks and steps are the same
    started_s: float
    ended_s: float
    num_bytes: int = 0
    first_step: int = 1 << 62
    last_step: int = -1

    def overlaps(self, first_step: int, end_step: int) -> bool:
        """Whether it may hold rows of these steps."""
        return self.first_step < end_step and self.last_step >= first_step


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Steps of a rank that are kept until `until_s`."""

    key: Key
    first_step: int
    end_step: int
    until_s: float

    def holds(self, segment: Segment) -> bool:
        """Whether the segment has some of them."""
        return segment.key == self.key and segment.overlaps(self.first_step, self.end_step)


@dataclass(kw_only=True)
class _Stream:
    """One rank: what a fresh segment begins with, and the segment that is being written."""

    layout: Layout
    names: list[str]
    notes: list[Frame] = field(default_factory=list)
    tape: Tape | None = None
    segment: Segment | None = None


@dataclass(kw_only=True)
class _Totals:
    num_bytes: int = 0
    written: int = 0
    num_steps: int = 0
    segments: deque[Segment] = field(default_factory=deque)
    pins: list[Pin] = field(default_factory=list)


class RawRing:
    """Written by the processor's loop, read by the thread that answers captures."""

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = DEFAULT_BYTES,
        max_age_s: float = DEFAULT_AGE_S,
        counters: Counters,
        notices: Notices,
        clock: Callable[[], float],
    ) -> None:
        self._directory = private_directory(directory)
        for left in directory.glob("*.argus"):
            left.unlink(missing_ok=True)  # of a processor that was killed
        free = shutil.disk_usage(directory).free
        self.max_bytes = min(max_bytes, int(free * FREE_SHARE))
        self._max_age_s = max_age_s
        self._counters, self._notices, self._clock = counters, notices, clock
        self._lock = threading.Lock()
        self._streams: dict[Key, _Stream] = {}
        self._totals = _Totals()
        self._next = 0

    def begin(self, key: Key, *, layout: Layout, names: tuple[str, ...]) -> None:
        """The rank connected."""
        with self._lock:
            self._finish(self._streams.get(key))
            self._streams[key] = _Stream(layout=layout, names=list(names))

    def write(self, key: Key, frame: Frame) -> None:
        """Keep a checked frame."""
        with self._lock:
            stream = self._streams.get(key)
            if stream is None or frame.kind not in KEPT:
                return
            try:
                self._write(key, stream, frame)
            except OSError as error:
                if stream.tape is None:
                    self._lose(num_rows_of(frame))
                self._finish(stream)
                self._notices.once("ring", f"the raw ring {self._directory} cannot be written: {error}")

    def flush(self) -> None:
        """Hand everything to the system; forget what is too old or too much."""
        with self._lock:
            for stream in self._streams.values():
                if stream.tape is not None:
                    _flush(stream.tape)
            self._forget()
            totals = self._totals
            self._counters.set("argus_collector_ring_bytes", totals.num_bytes)
            if totals.num_steps:
                per_step = totals.written / totals.num_steps
                self._counters.set("argus_collector_ring_bytes_per_rank_step", per_step)

    def end(self, key: Key) -> None:
        """The rank is gone; what it sent stays its time."""
        with self._lock:
            self._finish(self._streams.pop(key, None))

    def close(self) -> None:
        """Remove everything: without its processor nobody can ask for it."""
        with self._lock:
            for stream in self._streams.values():
                self._finish(stream)
            for segment in self._totals.segments:
                segment.path.unlink(missing_ok=True)
            self._totals.segments.clear()

    def pin(self, keys: Iterable[Key], *, first_step: int, end_step: int) -> None:
        """Keep these steps of these ranks for a day, as far as there is room."""
        with self._lock:
            until_s = self._clock() + PIN_S
            for key in keys:
                pin = Pin(key=key, first_step=first_step, end_step=end_step, until_s=until_s)
                self._totals.pins = [*self._totals.pins, pin][-MAX_PINS:]

    def extract(
        self, key: Key, *, first_step: int, end_step: int, max_bytes: int = MAX_EXTRACT_BYTES
    ) -> bytes:
        """Rows of these steps of a rank's last process as one recording; empty if nothing of it is left.

        Of more than `max_bytes` the beginning, with a note of it: there a fault began.
        """
        with self._lock:
            for stream in self._streams.values():
                if stream.tape is not None:
                    _flush(stream.tape)
            mine = [segment for segment in self._all() if segment.key == key]
            last = max(mine, key=lambda segment: segment.started_s).process if mine else None
            parts = [s for s in mine if s.process == last and s.overlaps(first_step, end_step)]
        whole = bytearray()
        for frame in (frame for part in parts for frame in _cut(part.path, first_step, end_step)):
            if len(whole) + len(frame) > max_bytes:
                whole += encode_json(Kind.NOTE, {"unseen": CUT_NOTE})
                break
            whole += frame
        return bytes(whole)

    def _write(self, key: Key, stream: _Stream, frame: Frame) -> None:
        if frame.kind == Kind.STRINGS and frame.body is not None:
            first, names = frame.body["first"], frame.body["names"]
            stream.names[first : first + len(names)] = names
        elif frame.kind == Kind.NOTE:
            stream.notes = [*stream.notes, frame][-MAX_NOTES:]
        if frame.rows is None and stream.segment is None:
            return  # the next segment begins with it
        if stream.segment is not None and self._is_full(stream.segment):
            self._finish(stream)
        if stream.tape is None or stream.segment is None:
            stream.tape, stream.segment = self._begin_segment(key, stream)
        raw = encode(frame)
        stream.tape.write(raw, num_rows=num_rows_of(frame))
        stream.segment.ended_s = self._clock()
        self._note(stream.segment, frame, len(raw))

    def _note(self, segment: Segment, frame: Frame, num_bytes: int) -> None:
        segment.num_bytes += num_bytes
        self._totals.num_bytes += num_bytes
        self._totals.written += num_bytes
        if frame.rows is not None and len(frame.rows):
            segment.first_step = min(segment.first_step, int(frame.rows["step"].min()))
            segment.last_step = max(segment.last_step, int(frame.rows["step"].max()))
            self._totals.num_steps += len(frame.rows) if frame.kind == Kind.STEPS else 0

    def _is_full(self, segment: Segment) -> bool:
        return segment.num_bytes >= SEGMENT_BYTES or self._clock() - segment.started_s >= SEGMENT_S

    def _begin_segment(self, key: Key, stream: _Stream) -> tuple[Tape, Segment]:
        now_s = self._clock()
        path = self._directory / f"{self._next:012d}.argus"
        self._next += 1
        tape = Tape(path, buffering=BUFFER_BYTES)
        head = encode_json(Kind.LAYOUT, stream.layout.to_json())
        head += encode_json(Kind.STRINGS, {"first": 0, "names": stream.names})
        head += b"".join(encode(note) for note in stream.notes)
        try:
            tape.write(head, num_rows=0)
        except OSError:
            tape.close()
            path.unlink(missing_ok=True)
            raise
        self._totals.num_bytes += len(head)
        process = stream.layout.pid, stream.layout.began_ns
        segment = Segment(
            path=path, key=key, process=process, started_s=now_s, ended_s=now_s, num_bytes=len(head)
        )
        return tape, segment

    def _finish(self, stream: _Stream | None) -> None:
        """Close the segment that is being written."""
        if stream is None or stream.tape is None or stream.segment is None:
            return
        num_bytes, num_lost, error = stream.tape.close()
        if error is not None:
            self._notices.once("ring", f"the raw ring {self._directory} lost a part: {error}")
        self._lose(num_lost)
        self._totals.num_bytes += num_bytes - stream.segment.num_bytes
        stream.segment.num_bytes = num_bytes
        self._totals.segments.append(stream.segment)
        stream.tape = stream.segment = None

    def _lose(self, num_rows: int) -> None:
        if num_rows:
            self._counters.add("argus_collector_dropped_events_total", "ring", amount=num_rows)

    def _all(self) -> Iterator[Segment]:
        yield from self._totals.segments
        yield from (s.segment for s in self._streams.values() if s.segment is not None)

    def _forget(self) -> None:
        now_s, totals = self._clock(), self._totals
        totals.pins = [pin for pin in totals.pins if pin.until_s > now_s]
        room = int(self.max_bytes * PINNED_SHARE)
        for segment in list(totals.segments):
            is_pinned = any(pin.holds(segment) for pin in totals.pins)
            if is_pinned and room >= segment.num_bytes:
                room -= segment.num_bytes
            elif totals.num_bytes > self.max_bytes or now_s - segment.ended_s > self._max_age_s:
                totals.segments.remove(segment)
                totals.num_bytes -= segment.num_bytes
                segment.path.unlink(missing_ok=True)


def _flush(tape: Tape) -> None:
    try:
        tape.flush()
    except OSError:
        return  # the disk is full: the next write says so and ends the segment


def _cut(path: Path, first_step: int, end_step: int) -> Iterator[bytes]:
    """Frames of a segment, rows of other steps left out; a segment that is gone by now has none."""
    try:
        raw = path.read_bytes()
    except OSError:
        return
    reader = FrameReader()
    try:
        for frame in reader.feed(raw):
            if frame.rows is None:
                yield encode(frame)
                continue
            steps = frame.rows["step"]
            mask = np.asarray((steps >= first_step) & (steps < end_step))
            if mask.any():
                yield encode(Frame(kind=frame.kind, rows=frame.rows[mask]))
    except WireError:
        return  # damaged on disk: what was read before it is used
