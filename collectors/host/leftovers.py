"""What ended processors left beside their sockets, removed once nobody can want it any more."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from argus.collectors.host.spool import KINDS

KEEP_S = 7 * 86400.0
"""An ended run's log may be read for a week; nothing else of it is of use."""

OWNER = ".owner.lock"
"""Beside a socket; a processor holds it as long as it lives."""

BESIDE_SOCKET = ("", ".launchers", ".ring", ".spool", OWNER)
BESIDE_NAME = (".log", ".lock")


def sweep(directory: Path, *, now_s: float) -> tuple[str, ...]:
    """Remove the files of processors that ended more than `KEEP_S` before `now_s`; returns their sockets' names.

    A spool that still holds uploads keeps everything: the next processor of that name sends them.
    """
    gone = []
    for owner in sorted(directory.glob(f"*{OWNER}")):
        socket = owner.with_name(owner.name.removesuffix(OWNER))
        if _is_old(socket, now_s) and _remove(socket):
            gone.append(socket.name)
    return tuple(gone)


def _files(socket: Path) -> list[Path]:
    names = [f"{socket.name}{end}" for end in BESIDE_SOCKET] + [f"{socket.stem}{end}" for end in BESIDE_NAME]
    pages = sorted(socket.parent.glob(f"{glob.escape(socket.name)}.step-*"))  # of ranks that were killed
    return [*(socket.with_name(name) for name in names), *pages]


def _is_old(socket: Path, now_s: float) -> bool:
    return all(now_s - path.lstat().st_mtime > KEEP_S for path in _files(socket) if os.path.lexists(path))


def _remove(socket: Path) -> bool:
    """Under both locks; False if a processor lives or is being started, or uploads wait."""
    locks = [socket.with_name(f"{socket.name}{OWNER}"), socket.with_name(f"{socket.stem}.lock")]
    try:
        with ExitStack() as stack:
            for path in locks:
                stack.enter_context(_held(path))
            if _waits(socket.with_name(f"{socket.name}.spool")):
                return False
            for path in _files(socket):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
    except OSError:
        return False  # somebody holds a lock, or it is not ours to remove: the next start tries again
    return True


@contextmanager
def _held(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _waits(spool: Path) -> bool:
    return spool.is_dir() and any(path.suffix[1:] in KINDS for path in spool.iterdir())
