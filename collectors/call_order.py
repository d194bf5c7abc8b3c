"""Number the calls of ranks whose files do not, so that one call has one number on all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.events import RankRecords

Ints = NDArray[np.int64]

Line = tuple[object, tuple[int, ...]]
"""A group, and sender and receiver of point-to-point calls in it."""

Kind = tuple[str, int]
"""Operation and bytes; 0 bytes where they may differ from rank to rank or are not known."""

Part = tuple[Ints, list[Kind]]
"""Rows of one rank's calls in order of entry, and their kinds."""

Step = tuple[int, dict[int, Part]]
"""A step's number, and its calls by place of the rank among the records."""


def numbered(records: Sequence[RankRecords], warnings: list[str]) -> tuple[list[RankRecords], int]:
    """Records whose sequence numbers count from the first common step on, without the calls the ranks do not agree on;
    and how many those are.

    A profile may begin inside a step and a cut one may end in it: counting per (group, step) keeps a call
    missing in one step from shifting all later ones.
    """
    seq = [np.full(len(one.collectives), -1, np.int64) for one in records]
    num_blocks = num_unlike = num_unmatched = 0
    for (_, pair), steps in _lines(records).items():
        base = 0
        for block in _blocks(steps, is_paired=bool(pair)):
            kinds = [mine for _, mine in block.values()]
            places = [np.arange(len(mine)) for mine in kinds] if pair else _places(kinds)
            size = max(map(len, kinds))
            num_blocks += 1
            if places is None:
                num_unlike, num_unmatched = num_unlike + 1, num_unmatched + size
            else:
                for (rank, (rows, _)), place in zip(block.items(), places, strict=True):
                    seq[rank][rows] = base + place
            base += size
    if num_unlike:
        warnings.append(
            f"the ranks' traces hold different calls in {num_unlike} of {num_blocks} (group, step) pairs; "
            "those calls cannot be matched and are not compared"
        )
    return [_with_seq(one, mine) for one, mine in zip(records, seq, strict=True)], num_unmatched


def _with_seq(one: RankRecords, seq: Ints) -> RankRecords:
    calls = one.collectives.copy()
    calls["seq"] = seq
    return replace(one, collectives=calls[seq >= 0])


def _lines(records: Sequence[RankRecords]) -> Mapping[Line, list[Step]]:
    """Each line's calls by step in order."""
    found: dict[Line, dict[int, dict[int, list[int]]]] = defaultdict(lambda: defaultdict(dict))
    for at, one in enumerate(records):
        for (line, step), rows in _rows_of(one).items():
            found[line][step][at] = rows
    kinds = [_kinds(one) for one in records]
    return {
        line: [
            (
                step,
                {
                    at: (np.array(rows, np.int64), [kinds[at][row] for row in rows])
                    for at, rows in parts.items()
                },
            )
            for step, parts in sorted(steps.items())
        ]
        for line, steps in found.items()
    }


def _rows_of(one: RankRecords) -> Mapping[tuple[Line, int], list[int]]:
    """Row numbers by line and step, in order of entry."""
    rows = one.collectives
    members = {group.name: group.ranks for group in one.layout.groups}
    found: dict[tuple[Line, int], list[int]] = defaultdict(list)
    for i in np.argsort(rows["entry_ns"], kind="stable").tolist():
        op, group = one.name(int(rows["op"][i])), one.name(int(rows["group"][i]))
        pair: tuple[int, ...] = ()
        if op in ("send", "recv"):
            ends = (one.layout.rank, int(rows["peer"][i]))
            pair = ends if op == "send" else ends[::-1]
        ranks = members.get(group, ())
        found[(group if not ranks else hash(ranks), pair), int(rows["step"][i])].append(i)
    return found


def _kinds(one: RankRecords) -> list[Kind]:
    """What each call of the rank is; only an all-reduce has the same size on all ranks. (row,)"""
    ops = [one.name(op) for op in one.collectives["op"].tolist()]
    sizes = one.collectives["bytes"].tolist()
    return [(op, size if op == "all_reduce" else 0) for op, size in zip(ops, sizes, strict=True)]


def _blocks(steps: Sequence[Step], *, is_paired: bool) -> Iterator[dict[int, Part]]:
    """Steps of a line, two as one where the ranks only agree on both: threads that begin calls on their own may begin
    one on either side of a step's end."""
    at = 0
    while at < len(steps):
        step, one = steps[at]
        is_followed = at + 1 < len(steps) and steps[at + 1][0] == step + 1
        at += 1
        if not is_paired and is_followed and not _is_same_set(one) and not _is_same_set(steps[at][1]):
            joined = _joined(one, steps[at][1])
            if _is_same_set(joined):
                one, at = joined, at + 1
        yield one


def _joined(one: Mapping[int, Part], other: Mapping[int, Part]) -> dict[int, Part]:
    parts: dict[int, Part] = dict(one)
    for rank, (rows, kinds) in other.items():
        before = parts.get(rank, (np.empty(0, np.int64), []))
        parts[rank] = np.concatenate([before[0], rows]), [*before[1], *kinds]
    return parts


def _is_same_set(parts: Mapping[int, Part]) -> bool:
    """Whether all ranks made as many calls of each kind."""
    first, *others = _sized([kinds for _, kinds in parts.values()])
    return all(kinds == first or Counter(kinds) == Counter(first) for kinds in others)


def _sized(parts: Sequence[list[Kind]]) -> Sequence[list[Kind]]:
    """The kinds, without sizes where one of them is not known."""
    if all(size > 0 for kinds in parts for op, size in kinds if op == "all_reduce"):
        return parts
    return [[(op, 0) for op, _ in kinds] for kinds in parts]


def _places(parts: Sequence[list[Kind]]) -> list[Ints] | None:
    """Place of each rank's calls among those of the rank with most of them; None if they made different calls.

    Who has fewer lacks those of the beginning or of the end. Calls that go on at once are told apart by their kinds.

    >>> a, b = ("all_reduce", 8), ("all_reduce", 4)
    >>> [at.tolist() for at in _places([[a, b, a], [b, a, a], [a, b], [b, a]]) or ()]
    [[0, 1, 2], [1, 0, 2], [0, 1], [1, 0]]
    """
    sized = _sized(parts)
    longest = max(sized, key=len)
    found: list[Ints] = []
    for kinds in sized:
        for first in dict.fromkeys((0, len(longest) - len(kinds))):
            among = longest[first : first + len(kinds)]
            if kinds == among or Counter(kinds) == Counter(among):
                found.append(first + _order(kinds, among))
                break
        else:
            return None
    return found


def _order(kinds: Sequence[Kind], among: Sequence[Kind]) -> Ints:
    """Place of each call `among` as many of the same kinds, the n-th of a kind for the n-th. (call,)"""
    places: dict[Kind, list[int]] = defaultdict(list)
    for place, kind in enumerate(among):
        places[kind].append(place)
    turns = {kind: iter(mine) for kind, mine in places.items()}
    return np.array([next(turns[kind]) for kind in kinds], np.int64)
