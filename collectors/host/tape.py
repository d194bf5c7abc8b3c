"""A file of frames that knows which of their rows are not on the disk yet."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from argus.collectors.records.frames import Frame


class Tape:
    """Written in order and flushed now and then; FileExistsError, OSError as of `open`."""

    def __init__(self, path: Path, *, buffering: int) -> None:
        self._path = path
        self._file = path.open("xb", buffering=buffering)
        self._end = 0
        self._waiting: deque[tuple[int, int]] = (
            deque()
        )  # (where it ends, rows) of what may not be on the disk

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        return not self._end

    def write(self, raw: bytes, *, num_rows: int) -> None:
        """Append a frame. OSError: it is lost, as may be others since the last flush; close the tape."""
        self._end += len(raw)
        self._waiting.append((self._end, num_rows))
        self._file.write(raw)

    def flush(self) -> int:
        """Hand everything to the system; bytes there are by now. OSError: close the tape."""
        self._file.flush()
        self._waiting.clear()
        return self._end

    def close(self) -> tuple[int, int, OSError | None]:
        """Bytes there are, rows that did not get there, what the system said."""
        failure = None
        try:
            self._file.close()
        except OSError as error:
            failure = error
        try:
            size = self._path.stat().st_size if failure or self._waiting else self._end
        except OSError as error:
            size, failure = 0, failure or error
        return size, sum(rows for end, rows in self._waiting if end > size), failure


def num_rows_of(frame: Frame) -> int:
    """How many rows a frame carries; signs of life and notes are none."""
    return 0 if frame.rows is None else len(frame.rows)
