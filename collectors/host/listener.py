"""The unix socket of a host: one processor listens, its user alone may connect."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from argus.collectors.records.endpoint import check_socket_path, private_directory

BACKLOG = 128
_UCRED = struct.Struct("3i")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Who connected; pid 0 if it lives in a PID namespace this process cannot see."""

    pid: int
    uid: int

    @property
    def is_trusted(self) -> bool:
        """The same user, or root."""
        return self.uid in (os.getuid(), 0)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a processor's records go: a service's URL, a recording's folder; empty for neither."""

    server: str = ""
    record: str = ""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """A bound socket and the lock that makes this process the only one to have it."""

    path: Path
    sock: socket.socket
    lock_fd: int

    def close(self) -> None:
        """Stop listening, then let another one."""
        self.sock.close()
        self.path.unlink(missing_ok=True)
        os.close(self.lock_fd)


def listen(path: Path, *, target: Target | None = None) -> Listener | None:
    """Listen on `path`; None if another processor does. ValueError, OSError: the path cannot be used."""
    check_socket_path(path)
    private_directory(path.parent)
    lock_fd = _own(Path(f"{path}.owner.lock"))
    if lock_fd is None:
        return None
    os.ftruncate(lock_fd, 0)
    os.write(lock_fd, json.dumps(asdict(target or Target())).encode())
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)  # of a processor that was killed: we hold its lock
        sock.bind(os.fspath(path))
        path.chmod(0o600)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        os.close(lock_fd)
        raise
    return Listener(path=path, sock=sock, lock_fd=lock_fd)


def _own(file: Path) -> int | None:
    """The locked file, None if another process has it. OSError."""
    while True:
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if os.fstat(fd).st_nlink:
            return fd
        os.close(
            fd
        )  # swept away in between, as of a run that ended long ago: the next one would lock another file


def target_of(path: Path) -> Target | None:
    """What the processor that listens on `path` does with the records; None if it does not say."""
    try:
        raw = json.loads(Path(f"{path}.owner.lock").read_bytes())
        return Target(server=str(raw["server"]), record=str(raw["record"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # of another version, or just starting


def peer_of(sock: socket.socket) -> Peer:
    """Credentials the kernel took when the peer connected (SO_PEERCRED, unix(7))."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return Peer(pid=pid, uid=uid)
