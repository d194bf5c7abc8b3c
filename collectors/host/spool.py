"""Uploads that wait on disk until the service has them, oldest first."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from argus.collectors.records.endpoint import private_directory

DEFAULT_BYTES = 1 << 30
MEMORY_BYTES = 64 << 20
"""What may wait in memory when the disk does not take it (full, read-only)."""

KINDS = ("layouts", "windows", "observations")

FULL = "spool_full"
"""Dropped as the oldest, to make room for newer ones."""

TOO_SMALL = "spool_too_small"
"""Never stored: larger than all that the spool may hold."""

NO_DISK = "disk"
"""The disk did not take it, nor is there room in memory."""
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Out of descriptors or memory: that says nothing of the file."""

_PART = ".part"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One waiting upload; `num` counts what is in it, `made_s` is Unix time.

    `payload` is set if it could not be put on disk.
    """

    seq: int
    kind: str
    num: int
    num_bytes: int
    made_s: float
    payload: bytes | None = None

    @property
    def file_name(self) -> str:
        """Sorted by name is sorted by age."""
        return f"{self.seq:016d}-{self.num}.{self.kind}"


class SpoolInUse(ValueError):
    """Another processor has this directory."""


class Spool:
    """One file per upload: written aside, synced, renamed; gone only after `done`.

    `lost(kind, num, why)` is told what was dropped; `why` is FULL, TOO_SMALL or NO_DISK.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int,
        lost: Callable[[str, int, str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._directory = private_directory(directory)
        self._max_bytes = max_bytes
        self._lost = lost
        self._lock = threading.Lock()
        self._lock_fd = _lock_directory(self._directory)
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._bytes = 0
        self._memory_bytes = 0
        for entry in _scan(self._directory):
            self._remember(entry)
        self._next = max(self._entries, default=0) + 1

    @property
    def num_bytes(self) -> int:
        """Bytes waiting."""
        with self._lock:
            return self._bytes

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def put(self, kind: str, payload: bytes, *, num: int) -> bool:
        """Take an upload, dropping the oldest ones over the limit; False if the disk did not take it.

        One that is larger than the limit is dropped itself, and what waits is kept.
        """
        with self._lock:
            if len(payload) > self._max_bytes:
                self._lost(kind, num, TOO_SMALL)
                return True
            seq, self._next = self._next, self._next + 1
            self._make_room(len(payload))
        entry = Entry(seq=seq, kind=kind, num=num, num_bytes=len(payload), made_s=self._clock())
        try:
            self._write(entry, payload)
        except OSError:
            return self._keep_in_memory(entry, payload)
        with self._lock:
            self._remember(entry)
        return True

    def oldest(self) -> Entry | None:
        """The upload that waits longest."""
        with self._lock:
            return next(iter(self._entries.values()), None)

    def oldest_within(self, age_s: float) -> Entry | None:
        """The one that waits longest of those that wait for no more than `age_s`."""
        since_s = self._clock() - age_s
        found = None
        with self._lock:
            for entry in reversed(self._entries.values()):  # made in their order
                if entry.made_s < since_s:
                    break
                found = entry
        return found

    def read(self, entry: Entry) -> bytes | None:
        """Its bytes, None if they are gone. OSError if they may be read later."""
        if entry.payload is not None:
            return entry.payload
        try:
            return (self._directory / entry.file_name).read_bytes()
        except OSError as error:
            if error.errno in PASSING:
                raise
            return None

    def age_s(self, entry: Entry) -> float:
        """How long an upload has waited."""
        return max(self._clock() - entry.made_s, 0.0)

    def done(self, entry: Entry) -> None:
        """The service has it, or will never take it."""
        with self._lock:
            self._forget(entry)

    def close(self) -> None:
        """Let another processor have the directory; what waits stays."""
        os.close(self._lock_fd)

    def _write(self, entry: Entry, payload: bytes) -> None:
        part = self._directory / f"{entry.file_name}{_PART}"
        whole = self._directory / entry.file_name
        try:
            with part.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            part.rename(whole)
            _sync_directory(self._directory)
        except OSError:
            for path in (
                part,
                whole,
            ):  # it waits in memory: left behind, it would be sent by the next processor too
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise

    def _keep_in_memory(self, entry: Entry, payload: bytes) -> bool:
        with self._lock:
            if self._memory_bytes + len(payload) > MEMORY_BYTES:
                self._lost(entry.kind, entry.num, NO_DISK)
                return False
            self._remember(replace(entry, payload=payload))
        return False

    def _make_room(self, num_bytes: int) -> None:
        while self._entries and self._bytes + num_bytes > self._max_bytes:
            oldest = next(iter(self._entries.values()))
            self._forget(oldest)
            self._lost(oldest.kind, oldest.num, FULL)

    def _remember(self, entry: Entry) -> None:
        self._entries[entry.seq] = entry
        self._bytes += entry.num_bytes
        self._memory_bytes += len(entry.payload or b"")

    def _forget(self, entry: Entry) -> None:
        if self._entries.pop(entry.seq, None) is None:
            return
        self._bytes -= entry.num_bytes
        self._memory_bytes -= len(entry.payload or b"")
        if entry.payload is None:
            with suppress(OSError):  # a disk gone read-only: sent again by the next processor, stored once
                (self._directory / entry.file_name).unlink(missing_ok=True)


def _lock_directory(directory: Path) -> int:
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise SpoolInUse(f"the spool {directory} belongs to another running processor") from None
    return fd


def _scan(directory: Path) -> list[Entry]:
    """Entries a former processor left; halves it was writing are removed."""
    entries = []
    for path in sorted(directory.iterdir()):
        if path.name.endswith(_PART):
            path.unlink(missing_ok=True)
            continue
        seq, _, num = path.stem.partition("-")
        if path.suffix[1:] in KINDS and seq.isdecimal() and num.isdecimal():
            stat = path.stat(follow_symlinks=False)
            kind, made_s = path.suffix[1:], stat.st_mtime
            entries.append(
                Entry(seq=int(seq), kind=kind, num=int(num), num_bytes=stat.st_size, made_s=made_s)
            )
    return entries


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (
            errno.EINVAL,
            errno.EOPNOTSUPP,
        ):  # a network's file system may know no such thing
            raise
    finally:
        os.close(fd)
