"""Lines of a log, without colours and with the rank that a launcher put before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argus.collectors.readers import ReaderError
from argus.collectors.readers._files import Inflated

MAX_LINE = 1 << 16
"""Characters kept of a line; what a program prints without an end of line is no log."""

_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(
    r"\s*(?:\[rank(?P<torch>\d{1,7})\]:?"  # torchrun, torchtitan, c10d
    r"|\[(?:default|[\w.-]+)(?P<tee>\d{1,7})\]:(?=\S|\s)"  # torchrun --tee: [role + local rank]
    r"|(?P<srun>\d{1,7}): "  # srun --label
    r"|\[\d+,(?P<mpi>\d{1,7})\]<std(?:out|err)>:?)\s?"  # mpirun --tag-output
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line; `rank` is -1 where nothing before it says one."""

    text: str
    rank: int = -1


class Lines:
    """Every line of a plain or compressed log in order; afterwards `warnings` says if its end is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Line]:
        """The lines. Raises ReaderError for a file that expands without end."""
        rest, name = "", self._path.name
        with Inflated(self._path) as source:
            try:
                while chunk := source.read():
                    whole = (rest + chunk.decode("utf-8", "replace")).split("\n")
                    rest = whole.pop()[-MAX_LINE:]
                    yield from map(parse, whole)
            except ReaderError as error:
                raise ReaderError(f"{name} {error}") from None
            if source.cut:
                self.warnings = (f"{name}: {source.cut}; the lines before that are used",)
        if rest:
            yield parse(rest)


def parse(raw: str) -> Line:
    """A line as it came.

    >>> parse("[rank3]: step: 4"), parse("12: hello").rank
    (Line(text='step: 4', rank=3), 12)
    """
    text = raw[:MAX_LINE].rstrip("\r")
    if "\x1b" in text:
        text = _COLOR.sub("", text)
    match = _PREFIX.match(text) if text.lstrip()[:1] in "[0123456789" else None
    if match is None:
        return Line(text=text)
    told = match["torch"] or match["srun"] or match["mpi"]
    return Line(text=text[match.end() :], rank=int(told) if told else -1)
