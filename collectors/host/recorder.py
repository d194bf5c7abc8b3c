"""Keep what the ranks sent as files that `argus triage` opens."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from argus.collectors.host.counters import Counters
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key
from argus.collectors.records.frames import ROW_KINDS, Frame, Kind, encode_json, encode_rows
from argus.collectors.records.layout import Layout

DEFAULT_BYTES = 4 << 30
SUFFIX = ".argus"
BUFFER_BYTES = 256 << 10


class Recorder:
    """One file per rank, `rank-N.argus`, `rank-N.2.argus` if that exists (a restart), and so on.

    At the limit, or when the disk refuses, it stops, says so once and counts what it leaves out.
    """

    def __init__(self, directory: Path, *, max_bytes: int, counters: Counters, notices: Notices) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._counters, self._notices = counters, notices
        self._left = max_bytes - sum(path.stat().st_size for path in directory.glob(f"*{SUFFIX}"))
        self._files: dict[Key, BinaryIO] = {}
        self._is_on = True

    def begin(self, key: Key, *, layout: Layout, names: tuple[str, ...]) -> None:
        """Open the rank's file, or note that the rank connected again."""
        if not self._is_on:
            return
        if key not in self._files:
            try:
                self._files[key] = _create(self._directory, layout.rank)
            except OSError as error:
                self._stop(f"cannot be written: {error}")
                return
            self.write(key, Frame(kind=Kind.STRINGS, body={"first": 0, "names": list(names)}), layout=layout)
        else:
            self.write(key, Frame(kind=Kind.LAYOUT, body=layout.to_json()))

    def write(self, key: Key, frame: Frame, *, layout: Layout | None = None) -> None:
        """Append a checked frame; a new file begins with its `layout`."""
        file = self._files.get(key)
        if not self._is_on or file is None:
            self._counters.add("argus_collector_dropped_events_total", "record_full")
            return
        raw = encode(frame) if layout is None else encode_json(Kind.LAYOUT, layout.to_json()) + encode(frame)
        if len(raw) > self._left:
            self._stop("is full; the rest of the run is not recorded")
            return
        self._left -= len(raw)
        self._counters.add("argus_collector_recorded_bytes_total", amount=len(raw))
        try:
            file.write(raw)
        except OSError as error:
            self._stop(f"cannot be written: {error}")

    def observe(self, key: Key, frame: Frame) -> None:
        """Append what the host saw of a rank; of one whose recording has ended there is nothing to keep."""
        if self._is_on and key in self._files:
            self.write(key, frame)

    def flush(self) -> None:
        """Hand everything to the system, so that a killed processor loses a second at most."""
        try:
            for file in self._files.values():
                file.flush()
        except OSError as error:
            self._stop(f"cannot be written: {error}")

    def end(self, key: Key) -> None:
        """The rank is gone."""
        file = self._files.pop(key, None)
        if file is not None:
            self._close(file)

    def close(self) -> None:
        """Close all files."""
        for key in list(self._files):
            self.end(key)

    def _stop(self, why: str) -> None:
        self._is_on = False
        self._notices.once("record", f"the recording {self._directory} {why}")
        self.close()

    def _close(self, file: BinaryIO) -> None:
        try:
            file.close()
        except OSError as error:
            self._notices.once("record", f"the recording {self._directory} lost its end: {error}")


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if frame.rows is not None:
        return encode_rows(ROW_KINDS[frame.kind], frame.rows)
    return encode_json(frame.kind, frame.body or {})


def _create(directory: Path, rank: int) -> BinaryIO:
    number = 1
    while True:
        part = f".{number}" if number > 1 else ""
        try:
            return (directory / f"rank-{rank}{part}{SUFFIX}").open("xb", buffering=BUFFER_BYTES)
        except FileExistsError:
            number += 1
