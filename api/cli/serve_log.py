"""The log of `argus serve`: a line a record on stderr, whatever libraries would make of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
OURS = "argus"


class Lines(logging.Formatter):
    r"""UTC, level, logger, message; nothing from outside begins a line of its own.

    >>> record = logging.LogRecord("argus.x", logging.ERROR, "", 0, "run %s", ("a\nb",), None)
    >>> Lines().format(record).partition("Z ")[2]
    'ERROR argus.x: run a\\nb'
    """

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without the traceback."""
        line = super().formatMessage(record)
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback indented below it."""
        return "\n  ".join(super().format(record).splitlines())


@contextmanager
def logging_lines() -> Iterator[None]:
    """Log this way: ours from INFO on, all others' from WARNING on.

    A handler of the root is there before any library is asked to make one: that of `mcp` shows tracebacks in boxes and past
    the masking of secrets.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    root, ours = logging.getLogger(), logging.getLogger(OURS)
    before = (root.level, ours.level)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        ours.setLevel(before[1])
