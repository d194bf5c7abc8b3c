"""Which slowdowns come at equal distances: blocks of slow steps as evaluation and checkpoints make where nobody marks them.

Too rare for a correlation to show them (`period`), they show by their begins alone, as single slow steps do (`pulse`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from argus.analytics.series.pulse import IN_STEPS, SAME_HEIGHT

OFF = 8
"""Values by which one distance may differ from another: they hold three begins, each told to within about three values."""

SAME_LENGTH = 2.0
"""Ratio of their lengths within which blocks can have one cause."""

PART = 0.5
"""Blocks take no more of the time: where more is slow, what comes back is the fast part."""

MISSED = 2
"""Distances to the next block where the one between was too small to be told."""

Block = tuple[int, int, float]
"""First and last value of a slowdown, and what a value of it lost."""


def distances(blocks: Sequence[Block]) -> dict[int, float]:
    """Which of the blocks, by their places in the order of their begins, come at equal distances: how far apart, in values.

    >>> distances([(300, 309, 1.0), (552, 560, 1.1), (700, 740, 3.0), (799, 811, 0.9), (1050, 1061, 1.0)])
    {0: 250.0, 1: 250.0, 3: 250.0, 4: 250.0}
    """
    found: dict[int, float] = {}
    for first in range(len(blocks) - 1):
        row, length = [first, first + 1], float(blocks[first + 1][0] - blocks[first][0])
        if first in found or not are_alike([blocks[at] for at in row], length):
            continue
        row = _followed(blocks, row, length, ways=(1,))
        if len(row) < IN_STEPS:
            continue
        length = (blocks[row[-1]][0] - blocks[row[0]][0]) / (len(row) - 1)
        ways = [way * times for way in (1, -1) for times in range(1, MISSED + 1)]
        found = dict.fromkeys(_followed(blocks, row, length, ways=ways), length) | found
    return dict(sorted(found.items()))


def _followed(blocks: Sequence[Block], row: list[int], length: float, *, ways: Sequence[int]) -> list[int]:
    """The row with all that lie so many times `length` after its last or, below zero, before its first."""
    more = (at for way in ways if (at := _beyond(blocks, row, length, way=way)) is not None)
    while (at := next(more, None)) is not None:
        row = sorted([*row, at])
        more = (at for way in ways if (at := _beyond(blocks, row, length, way=way)) is not None)
    return row


def _beyond(blocks: Sequence[Block], row: Sequence[int], length: float, *, way: int) -> int | None:
    place = blocks[row[-1 if way > 0 else 0]][0] + way * length
    at = bisect_left(blocks, place - OFF, key=lambda block: block[0])
    while at < len(blocks) and blocks[at][0] <= place + OFF:
        if at not in row and are_alike([blocks[one] for one in (*row, at)], length):
            return at
        at += 1
    return None


def are_alike(blocks: Sequence[Block], length: float) -> bool:
    """Whether blocks so far apart have about one height and length, and most of the time is none of theirs."""
    lost = [block[2] for block in blocks]
    long = [last - first + 1 for first, last, _ in blocks]
    is_one_size = max(lost) <= SAME_HEIGHT * min(lost) and max(long) <= SAME_LENGTH * min(long) + OFF
    return is_one_size and max(long) <= PART * length
