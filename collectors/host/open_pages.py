"""Reads the pages on which ranks say which step is open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from argus.collectors.host.rank import Key, key_of
from argus.collectors.host.ranks import Member
from argus.collectors.host.stack_plan import OpenStep
from argus.collectors.records.open_step import NUM_BYTES, page_file, parse

RETRY_S = 1.0
"""Between looks for a page that is not there, or no longer: a rank makes it with its first turn."""


class OpenPages:
    """Keeps the pages of the ranks it is asked about open; a read is one system call, and never maps them."""

    def __init__(self, socket: Path, *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._socket, self._clock_ns = socket, clock_ns
        self._files: dict[Key, int] = {}
        self._retry_ns: dict[Key, int] = {}

    def open_steps(self, members: Iterable[Member]) -> list[OpenStep]:
        """The open step of each rank that has a page and lives."""
        steps = []
        keys = set()
        for member in members:
            key = key_of(member.state.layout)
            keys.add(key)
            if member.process.is_visible and member.is_connected and not member.is_gone:
                step = self._read(key, member.process.pid)
                steps += [] if step is None else [step]
        self._forget(set(self._files) - keys)
        return steps

    def close(self) -> None:
        """Let go of all."""
        self._forget(set(self._files))

    def _read(self, key: Key, pid: int) -> OpenStep | None:
        now_ns, fd = self._clock_ns(), self._file(key)
        try:
            page = None if fd is None else parse(os.pread(fd, NUM_BYTES, 0))
        except OSError:
            return None  # no plain file
        if page is None or page.began_ns > now_ns:
            return None
        open_s, median_s = (now_ns - page.began_ns) * 1e-9, page.median_ns * 1e-9
        return OpenStep(key=key, pid=pid, step=page.step, open_s=open_s, median_s=median_s)

    def _file(self, key: Key) -> int | None:
        """The rank's page, None while it has not made it or if it runs an older version."""
        now_ns, fd = self._clock_ns(), self._files.get(key)
        if now_ns < self._retry_ns.get(key, 0):
            return fd
        self._retry_ns[key] = now_ns + int(RETRY_S * 1e9)
        if fd is not None:
            if os.fstat(fd).st_nlink:
                return fd
            os.close(self._files.pop(key))  # of a process that ended: one that took its place has another
        with suppress(OSError):
            how = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            self._files[key] = os.open(page_file(self._socket, *key), how)
        return self._files.get(key)

    def _forget(self, keys: set[Key]) -> None:
        """A rank that is gone may have had no time to remove its page."""
        for key in keys:
            os.close(self._files.pop(key))
            self._retry_ns.pop(key, None)
            with suppress(OSError):
                page_file(self._socket, *key).unlink(missing_ok=True)
