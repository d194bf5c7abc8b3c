"""Paths of options and arguments, and files written whole."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path


def word(text: str) -> str:
    """A word that is not empty: what a shell leaves of a variable that is not set.

    >>> word("traces/")
    'traces/'
    """
    if not text:
        raise argparse.ArgumentTypeError("must not be empty: is a variable of the shell not set?")
    return text


def path(text: str) -> Path:
    """A path that is not empty: the empty one would mean the folder one stands in."""
    return Path(word(text))


def write_whole(to: Path, what: str | bytes) -> None:
    """Write a file that is never there by half: whoever reads it meets the old one, the new one or none. OSError."""
    raw = what.encode() if isinstance(what, str) else what
    if to.exists() and not to.is_file():  # a pipe or a device
        to.write_bytes(raw)
        return
    target = Path(os.path.realpath(to))  # what a link leads to, not the link
    part = target.with_name(f".argus-{os.getpid()}.part")
    try:
        part.write_bytes(raw)
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
