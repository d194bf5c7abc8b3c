"""One mark for all that a run of live faults makes, by which what a killed one left behind is found again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "argus-live"
PATTERN = re.compile(rf"^{PREFIX}-(\d+)-")
"""Names of namespaces, control groups and folders; holds the process id of the run that made them."""

VARIABLE = "EVAL_LIVE_RUN"
"""In the environment of every process of a run: the process id of the run."""


def name_of(part: str, *, pid: int | None = None) -> str:
    """The name of a thing of this run.

    >>> name_of("rank0", pid=7)
    'argus-live-7-rank0'
    """
    return f"{PREFIX}-{os.getpid() if pid is None else pid}-{part}"


def owner_of(name: str) -> int | None:
    """The run that made what is called so; None if no run did.

    >>> owner_of("argus-live-7-rank0"), owner_of("argus-live"), owner_of("my-argus-live-7-x")
    (7, None, None)
    """
    found = PATTERN.search(name)
    return int(found[1]) if found else None


@contextmanager
def marked() -> Iterator[None]:
    """What is started meanwhile, and whatever that starts, bears the run's process id."""
    os.environ[VARIABLE] = str(os.getpid())
    try:
        yield
    finally:
        del os.environ[VARIABLE]
