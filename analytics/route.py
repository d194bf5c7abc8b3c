"""The way a walk takes over a window's calls: which are met one after another, and where their rows lie on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.meetings import Meeting, Pairs, alike, are_pairs, rows_of_alike
from argus.analytics.rounds import Round
from argus.analytics.window import Bools, Ints

Turn = Ints | Pairs | Meeting
"""Rows of a route that hand over without waiting, or calls that are met."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """The turns of a walk over some steps. Its rows lie in the order they are come to, so that most of the work is on
    pieces of memory and not on places scattered over millions of rows: `row_of` = each row's among the calls', `spot`,
    `rank`, `source` and `synced` as there. `is_by_times` = which call comes first was not for the order of calls alone
    to say. (row,)"""

    row_of: Ints
    spot: Ints
    rank: Ints
    source: Bools
    synced: Bools
    turns: tuple[Turn, ...]
    is_by_times: bool


def route_of(calls: Calls, turns: Sequence[Round], *, spot: Ints, counts: Bools) -> Route:
    """The route along `turns`; `spot` (row,) numbers the steps of the ranks, `counts` (call,) the calls that count."""
    is_pair = are_pairs(calls)
    meetings = [alike(calls, is_pair, turn.calls) for turn in turns]
    here = [rows_of_alike(calls, is_pair, which) for parts in meetings for which in parts]
    row_of = np.concatenate([np.empty(0, np.int64), *here])
    place = np.zeros(len(calls.call), np.int64)
    place[row_of] = np.arange(len(row_of))
    spots, source, synced = spot[row_of], calls.source[row_of], calls.synced[row_of]
    found: list[Turn] = []
    first = 0
    for turn, parts in zip(turns, meetings, strict=True):
        found += one_per_spot(place[turn.posts], spots)
        for which in parts:
            rows = slice(first, first + len(which) * int(calls.size[which[0]]))
            all_count = bool(counts[which].all())
            if is_pair[which[0]]:
                sends_first = calls.source[calls.first[which]]
                found.append(Pairs(which=which, first=first, sends_first=sends_first, all_count=all_count))
            else:
                found.append(_meeting(calls, which, rows, source=source, synced=synced, all_count=all_count))
            first = rows.stop
    return Route(
        row_of=row_of,
        spot=spots,
        rank=calls.rank[row_of],
        source=source,
        synced=synced,
        turns=tuple(found),
        is_by_times=any(turn.by_times for turn in turns),
    )


def _meeting(
    calls: Calls, which: Ints, rows: slice, *, source: Bools, synced: Bools, all_count: bool
) -> Meeting:
    """Calls of one size in their rows of the route, of which `source` and `synced` are."""
    return Meeting(
        which=which,
        size=int(calls.size[which[0]]),
        first=rows.start,
        has_source=bool(source[rows].any()),
        has_one_way=bool(calls.one_way[which].any()),
        all_stand=bool(synced[rows].all()),
        all_count=all_count,
    )


def one_per_spot(rows: Ints, spot: Ints) -> Iterator[Ints]:
    """The rows in turns, none of which has two rows of one rank and step."""
    while len(rows):
        _, first = np.unique(spot[rows], return_index=True)
        if len(first) == len(rows):
            yield rows
            return
        chosen = np.zeros(len(rows), np.bool_)
        chosen[first] = True
        yield rows[chosen]
        rows = rows[~chosen]
