"""Where a host's processor listens: one unix socket in a directory only the job's user may enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

MAX_PATH = 107
"""Bytes of a socket's path: sockaddr_un.sun_path without its final zero (unix(7))."""


def socket_path(env: Mapping[str, str]) -> Path:
    """`ARGUS_SOCKET`, else the user's own default under the system's temporary directory."""
    named = env.get("ARGUS_SOCKET")
    return Path(named) if named else Path("/tmp") / f"argus-{os.getuid()}" / "processor.sock"


def check_socket_path(path: Path) -> None:
    """ValueError if the system binds no socket there, for its length."""
    if len(os.fsencode(path)) > MAX_PATH:
        raise ValueError(f"the socket path {path} is longer than {MAX_PATH} bytes")


def private_directory(path: Path) -> Path:
    """Create `path` for this user alone, or check that it is; ValueError says whose it is instead."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = path.stat(follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise ValueError(
            f"{path} must be a directory of user {os.getuid()} with mode 0700, "
            f"it belongs to {info.st_uid} with mode {stat.S_IMODE(info.st_mode):04o}"
        )
    return path
