"""One name for all that a run of live faults makes, by which what a killed one left behind is found again."""

from __future__ import annotations

import os
import re

PREFIX = "argus-live"
PATTERN = re.compile(rf"{PREFIX}-(\d+)-")
"""Holds the process id of the run that made it."""


def name_of(part: str, *, pid: int | None = None) -> str:
    """The name of a thing of this run.

    >>> name_of("r0", pid=7)
    'argus-live-7-r0'
    """
    return f"{PREFIX}-{os.getpid() if pid is None else pid}-{part}"


def owner_of(text: str) -> int | None:
    """The run that made what is called so, or whose command line this is; None if no run did.

    >>> owner_of("python train.py --fault-dir /tmp/argus-live-7-x/faults"), owner_of("argus-live")
    (7, None)
    """
    found = PATTERN.search(text)
    return int(found[1]) if found else None
