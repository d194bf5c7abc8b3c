"""Overlapping slices on rows where they nest."""

from __future__ import annotations

from collections.abc import Sequence


def lanes_of(spans: Sequence[tuple[int, int]]) -> list[int]:
    """A lane for each (start, end): within one, spans are apart or one holds the other.

    >>> lanes_of([(0, 10), (2, 4), (5, 12), (20, 30)])
    [0, 0, 1, 0]
    """
    order = sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1]))
    lanes: list[list[int]] = []
    out = [0] * len(spans)
    for index in order:
        start, end = spans[index]
        out[index] = _lane(lanes, start, end)
        lanes[out[index]].append(end)
    return out


def _lane(lanes: list[list[int]], start: int, end: int) -> int:
    """The first lane that takes the span; each holds the ends of what is open in it, innermost last."""
    for number, ends in enumerate(lanes):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or ends[-1] >= end:
            return number
    lanes.append([])
    return len(lanes) - 1
