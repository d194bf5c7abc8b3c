"""Lines of the kernel log that speak of hardware: GPU and switch errors, PCIe errors, kills for memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

from argus.collectors.records.host_sample import KernelEvent
from argus.collectors.records.text import tame

KMSG = Path("/dev/kmsg")
RECORD_BYTES = 8192
"""One read gives one record, never longer than this (Documentation/ABI/testing/dev-kmsg)."""

MAX_RECORDS = 4096
MAX_EVENTS = 64
MAX_TEXT = 300

PATTERNS = (
    ("xid", re.compile(r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)\): (?P<code>\d+)")),
    ("sxid", re.compile(r"SXid \(PCI:(?P<device>[0-9a-fA-F:.]+)\): (?P<code>\d+)")),
    ("aer", re.compile(r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]).*(PCIe Bus Error|AER:)")),
    ("aer", re.compile(r"AER: .*?(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")),
    ("oom", re.compile(r"[Oo]ut of memory: Killed process (?P<code>\d+)")),
)


def parse_line(text: str, *, ts_s: float) -> KernelEvent | None:
    """What a line says, None if it is not about hardware.

    >>> parse_line("NVRM: Xid (PCI:0000:10:1c): 79, pid=1, GPU has fallen off the bus.", ts_s=0.0).code
    79
    """
    for kind, pattern in PATTERNS:
        match = pattern.search(text)
        if match:
            found = match.groupdict()
            return KernelEvent(
                ts_s=ts_s,
                kind=kind,
                code=int(found.get("code") or 0),
                device=found.get("device") or "",
                text=tame(text.strip(), MAX_TEXT),
            )
    return None


class KernelLog:
    """New lines since it was opened. `unseen` says why there are none."""

    def __init__(self, path: Path = KMSG) -> None:
        self.unseen = ""
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            self.unseen = f"kernel log: {error.strerror}"

    def read(self, *, boot_s: float) -> list[KernelEvent]:
        """Hardware lines since last asked; `boot_s` is the Unix time at which the kernel's clock began."""
        if self._fd is None:
            return []
        events: list[KernelEvent] = []
        for _ in range(MAX_RECORDS):
            record = self._record(self._fd)
            if record is None or len(events) >= MAX_EVENTS:
                break
            event = parse_record(record, boot_s=boot_s)
            events += [event] if event else []
        return events

    def close(self) -> None:
        """Let go of the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _record(self, fd: int) -> bytes | None:
        try:
            return os.read(fd, RECORD_BYTES) or None
        except BlockingIOError:
            return None
        except BrokenPipeError:
            return b""  # records were overwritten before they were read; the next read goes on
        except OSError as error:
            self.unseen = f"kernel log: {error.strerror}"
            self.close()
            return None


def parse_record(record: bytes, *, boot_s: float) -> KernelEvent | None:
    """`priority,number,microseconds,flags;text` and lines of dictionary (dev-kmsg)."""
    head, _, text = record.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if len(fields) < 3 or not fields[2].isdecimal():
        return None
    return parse_line(text.partition("\n")[0], ts_s=boot_s + int(fields[2]) * 1e-6)
