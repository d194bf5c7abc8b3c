"""Read py-spy's raw profiles (`py-spy record -f raw`): folded stacks with how often each was seen.

The rank is in the file's name: py-spy knows none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._lines import Lines
from argus.collectors.readers._profiled_stacks import MAX_STACKS, Stack, reading_of, stack_of

MIN_LIKE = 0.9
"""So many of the first lines must be folded stacks."""

_FOLDED = re.compile(r"^(?P<stack>[^;\s][^;]*(?:;[^;]+)*) (?P<count>\d{1,12})$")
_FRAME = re.compile(r"\([^()]*?(?::\d+)?\)")


def sniff(head: bytes, name: str) -> bool:
    """Lines of frames with a file each, joined by semicolons, that end in a count."""
    if b"\0" in head or not head.strip():
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:200]
    lines = [line.rstrip("\r") for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]
    like = [line for line in lines if _FOLDED.match(line) and _FRAME.search(line)]
    return bool(like) and len(like) >= MIN_LIKE * len(lines)


def read(path: Path) -> Iterator[Reading]:
    """The one rank of the profile. Raises ReaderError."""
    counts: Counter[Stack] = Counter()
    num_bad = 0
    lines = Lines(path)
    for line in lines:
        found = _FOLDED.match(line.text)
        if found is None:
            num_bad += bool(line.text.strip())
        elif len(counts) < MAX_STACKS:
            counts[stack_of(found["stack"].split(";"))] += int(found["count"])
    if not counts:
        raise ReaderError(f"{path.name} holds no folded stack")
    told = (f"{path.name}: {num_bad} lines are no folded stacks and are left out",) if num_bad else ()
    yield reading_of(counts, path, warnings=(*lines.warnings, *told))
