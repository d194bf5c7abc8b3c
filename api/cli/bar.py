"""One line on a terminal that says which file is being read and how much of it was."""

from __future__ import annotations

from typing import TextIO

WIDTH = 24
MAX_NAME = 40


class Bar:
    """Draws itself where its stream is a terminal, and only when there is something new to see."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_on = stream.isatty()
        self._shown = ("", -1)

    def __call__(self, name: str, share: float) -> None:
        """The share of a file that was read."""
        now = (name, int(100 * share))
        if self._is_on and now != self._shown:
            self._shown = now
            print(f"\r\x1b[K{line(*now)}", end="\r", file=self._stream, flush=True)

    def clear(self) -> None:
        """Take the line away before anything else is printed."""
        if self._is_on:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def line(name: str, percent: int) -> str:
    """The line of a file.

    >>> line("rank-3.json", 50)
    'rank-3.json [############            ]  50 %'
    """
    done = WIDTH * percent // 100
    shown = "".join(c if c.isprintable() else "?" for c in name[-MAX_NAME:])
    return f"{shown} [{'#' * done}{' ' * (WIDTH - done)}] {percent:3d} %"
