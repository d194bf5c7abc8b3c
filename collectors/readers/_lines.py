"""Lines of a log, without colours and with the rank that a launcher put before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    """Every line of a plain or compressed log in order; afterwards `warnings` says what of it is missing.

    A carriage return ends a line too, as progress bars use it; what follows on the same line keeps its rank.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_cut = False
        self._rank = -1
        self.warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Line]:
        """The lines. Raises ReaderError for a file that expands without end."""
        rest, held, name = "", "", self._path.name
        with Inflated(self._path) as source:
            try:
                while chunk := source.read():
                    text = held + chunk.decode("utf-8", "replace")
                    held = "\r" if text.endswith("\r") else ""  # the line feed may come with the next chunk
                    whole = _split(text[: len(text) - len(held)])
                    whole[0] = rest + whole[0]
                    rest = self._short(whole.pop())
                    yield from map(self._line, whole)
            except ReaderError as error:
                raise ReaderError(f"{name} {error}") from None
            if source.cut:
                self.warnings = (f"{name}: {source.cut}; the lines before that are used",)
        if rest:
            yield self._line(rest)
        if self._is_cut:
            self.warnings += (
                f"{name}: of a line longer than {MAX_LINE:,} characters only the last are read",
            )

    def _line(self, raw: str) -> Line:
        line = parse(self._short(raw).removeprefix("\r"))
        if raw.startswith("\r") and line.rank < 0:
            return replace(line, rank=self._rank)
        self._rank = line.rank
        return line

    def _short(self, raw: str) -> str:
        """The last characters of a line: a step's times follow the dots printed before them."""
        if len(raw) <= MAX_LINE + 1:  # room for the mark that it follows on another
            return raw
        self._is_cut = True
        return raw[: raw.startswith("\r")] + raw[-MAX_LINE:]


def _split(text: str) -> list[str]:
    """Lines without their ends; one that follows a lone carriage return begins with it."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n\r")
    return text.split("\n")


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
