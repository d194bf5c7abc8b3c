"""What the kernel says of a rank's process: its state letter while it lives, its exit after."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

_PIDFD_GET_INFO = 0xC040FF0B
"""ioctl of Linux 6.13 (include/uapi/linux/pidfd.h); `_IOWR(0xFF, 11, struct pidfd_info)`."""

_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("<QQ11Ii")
_START_FIELD = 19
_CODE_FIELD = 23
_EXIT_FIELD = 49
"""Fields of /proc/PID/stat behind the name, counted from the state letter as 0 (proc(5))."""


@dataclass(frozen=True, kw_only=True)
class Stat:
    """/proc/PID/stat: state letter, start time in clock ticks, exit status, 0 also where it may not be read.

    `is_readable`: it may be; known only while the process lives.
    """

    letter: str
    start: int
    exit_status: int
    is_readable: bool = False


def read_stat(pid: int) -> Stat | None:
    """The process as it is now, None if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
        fields = text[text.rindex(b")") + 2 :].split()
        return Stat(
            letter=fields[0].decode("ascii", "replace"),
            start=int(fields[_START_FIELD]),
            exit_status=int(fields[_EXIT_FIELD]),
            # fs/proc/array.c shows both fields or neither: 1 stands for an address that is kept back.
            is_readable=int(fields[_CODE_FIELD]) > 1,
        )
    except (OSError, ValueError, IndexError):
        return None  # gone, or going while it was read


class Process:
    """One process held on to, so that its number cannot come to mean another one.

    `is_visible` False: it lives in another PID namespace, nothing can be known of it.
    """

    def __init__(self, pid: int, *, is_visible: bool = True) -> None:
        self.pid = pid
        self.is_visible = is_visible
        first = read_stat(pid) if is_visible else None
        self._start = first.start if first else None
        self._is_readable = first is not None and first.is_readable
        self._kills = oom_kills(pid) if first else 0
        self._kills_path = _oom_file(pid) if first else None
        self._exit_status: int | None = None
        self.fd = _pidfd(pid) if first else None

    def letter(self) -> str:
        """State letter; "" once it is gone. A zombie still has its letter and may tell its exit."""
        stat = read_stat(self.pid) if self._start is not None else None
        if stat is None or stat.start != self._start:
            return ""
        self._is_readable = self._is_readable or stat.is_readable
        if stat.letter in "ZX" and (stat.exit_status or self._is_readable):
            self._exit_status = stat.exit_status
        return stat.letter

    def exit_reason(self) -> str:
        """`signal N`, `code N` or `oom`; "" if the kernel does not tell."""
        status = _status_from(self.fd) if self.fd is not None else None
        status = self._exit_status if status is None else status
        if status is None:
            return ""
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and self._kills_path and _count_kills(self._kills_path) > self._kills:
            return "oom"
        return f"signal {-code}" if code < 0 else f"code {code}"

    def close(self) -> None:
        """Let go of the process."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def oom_kills(pid: int) -> int:
    """Kills for memory in the process's cgroup so far, 0 if unknown."""
    path = _oom_file(pid)
    return _count_kills(path) if path else 0


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None  # Linux before 5.3, or just gone: /proc still tells


def _status_from(fd: int) -> int | None:
    """Wait status by pidfd, also after the parent has taken it (Linux 6.15)."""
    buffer = bytearray(_PIDFD_INFO.size)
    struct.pack_into("<Q", buffer, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(fd, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None  # an older kernel
    values = _PIDFD_INFO.unpack(buffer)
    return int(values[-1]) if values[0] & _PIDFD_INFO_EXIT else None


def _oom_file(pid: int) -> Path | None:
    """The file that counts kills for memory: cgroup v2 `memory.events`, v1 `memory.oom_control`."""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.oom_control"
        if controllers == "" and (Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events").exists():
            return Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events"
    return None


def _count_kills(path: Path) -> int:
    with suppress(OSError, ValueError):
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
