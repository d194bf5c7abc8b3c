"""A file descriptor of ours in a process whose program may close it unasked."""

from __future__ import annotations

import os


class Descriptor:
    """Knows its file again: programs close all descriptors (`os.closerange`), then the number is a file of theirs.

    What is not ours any more must neither be written to nor closed.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._file = _file_of(fd)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for the file it was opened for; a microsecond."""
        try:
            return _file_of(self.fd) == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Close it if it is still ours."""
        if self.is_ours:
            os.close(self.fd)


def _file_of(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
