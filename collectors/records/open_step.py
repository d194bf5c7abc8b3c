"""The page on which a rank says which step is open: read by its host's processor at any time, without asking.

A status comes once a second, and a rank that holds the GIL sends none; a page of 24 bytes tells at once.
Times are of CLOCK_MONOTONIC, which all processes of a host share.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

BEGUN = struct.Struct("<qq")
"""Number of the open step and when it began, in ns: written by the training thread at each step's end."""

USUAL = struct.Struct("<q")
"""Median step in ns, 0 if none is known or the rank is in a mark: written by the writer thread."""

NUM_BYTES = BEGUN.size + USUAL.size


@dataclass(frozen=True, kw_only=True)
class OpenPage:
    """What a page says."""

    step: int
    began_ns: int
    median_ns: int


def page_file(socket: Path, run: str, attempt: int, rank: int) -> Path:
    """Where a rank's page lies: beside the processor's socket, named by what names the rank."""
    name = hashlib.sha256(f"{run}\0{attempt}\0{rank}".encode("utf-8", "replace")).hexdigest()[:16]
    return socket.with_name(f"{socket.name}.step-{name}")


def parse(raw: bytes) -> OpenPage | None:
    """The page's content; None before a step began, or if it is no page."""
    if len(raw) != NUM_BYTES:
        return None
    step, began_ns = BEGUN.unpack_from(raw)
    (median_ns,) = USUAL.unpack_from(raw, BEGUN.size)
    if step < 0 or began_ns <= 0 or median_ns < 0:
        return None
    return OpenPage(step=step, began_ns=began_ns, median_ns=median_ns)
