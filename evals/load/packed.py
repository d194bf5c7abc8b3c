"""Upload bodies of a whole load: made before it begins, kept on disk, read back when they are due."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO


@dataclass(kw_only=True)
class Packed:
    """Bodies by (host, window). A real cluster packs them on a thousand machines: beside the service it would be the
    packing that is measured. Ten minutes of 10,240 ranks are 9 GB, more than a machine should hold in memory.

    >>> packed = Packed()
    >>> packed.put((3, 0), b"body", raw=12)
    >>> packed.get((3, 0))
    (b'body', 12)
    >>> packed.close()
    """

    _file: IO[bytes] = field(default_factory=lambda: TemporaryFile(buffering=0))  # noqa: SIM115 - see close
    _places: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    _end: int = 0

    def put(self, key: tuple[int, int], body: bytes, *, raw: int) -> None:
        """Keep a body that is `raw` bytes long before compression."""
        os.pwrite(self._file.fileno(), body, self._end)
        self._places[key] = (self._end, len(body), raw)
        self._end += len(body)

    def sync(self) -> None:
        """Have the disk done with it, so that it is not busy with it later."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file, which has no name."""
        self._file.close()

    def get(self, key: tuple[int, int]) -> tuple[bytes, int]:
        """A body, and how long it was before compression; from any thread."""
        offset, size, raw = self._places[key]
        return os.pread(self._file.fileno(), size, offset), raw
