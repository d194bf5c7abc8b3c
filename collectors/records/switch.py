"""Collection switched off on a host: files beside the processor's socket, seen by ranks and processor alike."""

from __future__ import annotations

import hashlib
from pathlib import Path

OFF = "off"
"""`touch` this file in the socket's directory: no run is observed on this host until it is removed."""


def off_file(socket: Path, run: str = "") -> Path:
    """The file whose existence switches `run` off, every run if none is named.

    >>> off_file(Path("/tmp/argus-0/processor.sock")).name
    'off'
    """
    if not run:
        return socket.parent / OFF
    return socket.parent / f"{OFF}-{hashlib.sha256(run.encode('utf-8', 'replace')).hexdigest()[:16]}"


def is_off(socket: Path, run: str) -> bool:
    """Whether collection of `run` is off on this host now; two looks into a directory, no more."""
    try:
        return off_file(socket).exists() or off_file(socket, run).exists()
    except OSError:
        return False  # a directory we may not enter: nothing can be sent either
