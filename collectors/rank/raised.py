"""What ended this process, if an exception did that nobody caught: its type and place, never its words."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

MAX_NAME = 80
"""Characters of a type's or a file's name: both fit what the wire takes."""

LIBRARIES = (
    str(Path(__file__).parents[2]) + os.sep,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Where code lies that is not the program's: ours, Python's, what is installed."""


def last_raised() -> str:
    """Type and place of the exception that ends the interpreter now; "" if none does.

    The place is the last line of the program's own on the way to where it was raised: below it is a library's.
    An exception's message may hold what is nobody's business, such as a path or a key.
    """
    kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)
    if kind is None:
        kind, _, trace = sys.exc_info()
    if not isinstance(kind, type) or issubclass(kind, (SystemExit, KeyboardInterrupt)):
        return ""
    place = _place(trace)
    name = kind.__qualname__[:MAX_NAME]
    return f"{name} in {place}" if place else name


def _place(trace: TracebackType | None) -> str:
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    own = [one for one in frames if not one[0].startswith(("<", *LIBRARIES))]
    if not (own or frames):
        return ""
    file, line = (own or frames)[-1]
    return f"{os.path.basename(file)[:MAX_NAME]}:{line}"
