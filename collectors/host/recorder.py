"""Keep what the ranks sent as files that `argus triage` opens."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from argus.collectors.host.counters import Counters
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key
from argus.collectors.host.tape import Tape, num_rows_of
from argus.collectors.records.frames import ROW_KINDS, Frame, Kind, encode_json, encode_rows
from argus.collectors.records.layout import Layout

DEFAULT_BYTES = 4 << 30
SUFFIX = ".argus"
END_NOTE = "what came after the recording had reached its size limit"
BUFFER_BYTES = 256 << 10
LOST, RECORDED = "argus_collector_dropped_events_total", "argus_collector_recorded_bytes_total"


class Recorder:
    """One file per rank, `rank-N.argus`, `rank-N.2.argus` if that exists (a restart), and so on.

    At the limit, or when the disk refuses, it stops, says so once and counts the rows it leaves out;
    `trouble` is what it said.
    """

    def __init__(self, directory: Path, *, max_bytes: int, counters: Counters, notices: Notices) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._counters, self._notices = counters, notices
        self._left = max_bytes - sum(path.stat().st_size for path in directory.glob(f"*{SUFFIX}"))
        self._tapes: dict[Key, Tape] = {}
        self._recorded: dict[Key, int] = {}
        self._is_on = True
        self.trouble = ""

    def begin(self, key: Key, *, layout: Layout, names: tuple[str, ...]) -> None:
        """Open the rank's file, or note that the rank connected again."""
        if not self._is_on:
            return
        if key not in self._tapes:
            try:
                self._tapes[key] = _create(self._directory, layout.rank)
            except OSError as error:
                self._fail(error)
                return
            self.write(key, Frame(kind=Kind.STRINGS, body={"first": 0, "names": list(names)}), layout=layout)
        else:
            self.write(key, Frame(kind=Kind.LAYOUT, body=layout.to_json()))

    def write(self, key: Key, frame: Frame, *, layout: Layout | None = None) -> None:
        """Append a checked frame; a new file begins with its `layout`."""
        tape = self._tapes.get(key)
        if not self._is_on or tape is None:
            self._lose(num_rows_of(frame))
            return
        raw = encode(frame) if layout is None else encode_json(Kind.LAYOUT, layout.to_json()) + encode(frame)
        if len(raw) > self._left:
            self._lose(num_rows_of(frame))
            self._note_end()
            self._stop("is full; the rest of the run is not recorded")
            return
        self._left -= len(raw)
        try:
            tape.write(raw, num_rows=num_rows_of(frame))
        except OSError as error:
            self._fail(error)

    def observe(self, key: Key, frame: Frame) -> None:
        """Append what the host saw of a rank; of one whose recording has ended there is nothing to keep."""
        if self._is_on and key in self._tapes:
            self.write(key, frame)

    def flush(self) -> None:
        """Hand everything to the system, so that a killed processor loses a second at most."""
        try:
            for key, tape in self._tapes.items():
                self._count(key, tape.flush())
        except OSError as error:
            self._fail(error)

    def end(self, key: Key) -> None:
        """The rank is gone."""
        tape = self._tapes.pop(key, None)
        if tape is None:
            return
        num_bytes, num_lost, error = tape.close()
        self._count(key, num_bytes)
        self._recorded.pop(key, None)
        self._lose(num_lost)
        if error is not None:
            self._say(f"lost its end: {error}")

    def close(self) -> None:
        """Close all files."""
        for key in list(self._tapes):
            self.end(key)

    def _stop(self, why: str) -> None:
        self._is_on = False
        self._say(why)
        self.close()

    def _fail(self, error: OSError) -> None:
        self._stop(f"cannot be written: {error}; the rest of the run is not recorded")

    def _say(self, what: str) -> None:
        self.trouble = self.trouble or f"the recording {self._directory} {what}"
        self._notices.once("record", self.trouble)

    def _note_end(self) -> None:
        """Say in the files why they end: without a goodbye the ranks look as if they had been killed."""
        with suppress(OSError):  # what closes the tapes sees it too
            for tape in self._tapes.values():
                if not tape.is_empty:
                    tape.write(encode_json(Kind.NOTE, {"unseen": END_NOTE}), num_rows=0)

    def _lose(self, num_rows: int) -> None:
        if num_rows:
            self._counters.add(LOST, "record_full", amount=num_rows)

    def _count(self, key: Key, num_bytes: int) -> None:
        """A rank's file has so many bytes by now."""
        self._counters.add(RECORDED, amount=num_bytes - self._recorded.get(key, 0))
        self._recorded[key] = num_bytes


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if frame.rows is not None:
        return encode_rows(ROW_KINDS[frame.kind], frame.rows)
    return encode_json(frame.kind, frame.body or {})


def _create(directory: Path, rank: int) -> Tape:
    number = 1
    while True:
        part = f".{number}" if number > 1 else ""
        try:
            return Tape(directory / f"rank-{rank}{part}{SUFFIX}", buffering=BUFFER_BYTES)
        except FileExistsError:
            number += 1
