"""Bring profiles whose step numbers count from different beginnings to one count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from argus.collectors.launches import PROFILED
from argus.collectors.readers import Reading
from argus.collectors.records.events import DTYPES, SYMMETRIC_OPS, RankRecords

Ints = NDArray[np.int64]

SAME_END = 0.25
"""Ends of one collective differ by less of a step on one clock; those of two steps by more than twice as much."""

TELLING = 0.2
"""Ends that scatter by a fifth of what they do by the ranks' own numbers show which steps belong together."""

MIN_STEPS = 3
"""Fewer steps scatter little by chance."""

MIN_AGREED = 0.75
"""Of the calls with numbers so many must say the same; a profile may cut one off at either end."""

Span = tuple[Ints, Ints, Ints]
"""Numbers, starts and ends of a rank's steps. (step,) each"""


@dataclass(frozen=True)
class _Rank:
    """A rank's steps, its calls' steps by group and number, and when the last call of each group ended in a step."""

    steps: Span
    step_of: Mapping[tuple[int, int], int]
    ends: Mapping[int, Mapping[int, int]]
    clock: str


def in_one_count(by_rank: Mapping[int, Reading], warnings: list[str]) -> dict[int, Reading]:
    """The readings with the steps of profiles in the count of most ranks, and a sentence where that changed any.

    Calls with numbers of their own say which steps are one; else the times at which symmetric collectives end, which
    are the same for all members. Where neither tells, the ranks' numbers stand, and ranks without a step in common
    with any other are named.
    """
    ranks = {
        number: _rank(reading)
        for number, reading in sorted(by_rank.items())
        if reading.records.layout.source in PROFILED and _is_marked(reading.records)
    }
    unmarked = [
        number
        for number, reading in sorted(by_rank.items())
        if reading.records.layout.source in PROFILED and number not in ranks
    ]
    if ranks and unmarked:
        warnings.append(_unmarked_sentence(unmarked, by_rank))
    if len(ranks) < 2:
        return dict(by_rank)
    are_numbered = all(by_rank[number].is_seq_known for number in ranks)
    ahead = _ahead_by_calls(ranks) if are_numbered else _ahead_by_ends(ranks)
    usual = Counter(ahead.values()).most_common(1)[0][0]
    moves = {number: usual - mine for number, mine in ahead.items() if mine != usual}
    lowest = min(int(ranks[number].steps[0].min()) + moves.get(number, 0) for number in ranks)
    if moves:
        warnings.append(_moved_sentence(moves, ranks, "numbers" if are_numbered else "ends"))
    up = max(-lowest, 0)
    out = {
        number: _renumbered(one, moves.get(number, 0) + (up if number in ranks else 0))
        for number, one in by_rank.items()
    }
    warnings += _strangers(out, ranks)
    return out


def _is_marked(records: RankRecords) -> bool:
    return bool(len(records.steps)) and bool((records.steps["user_step"] >= 0).all())


def _rank(reading: Reading) -> _Rank:
    one = reading.records
    order = np.argsort(one.steps["step"], kind="stable")
    steps = one.steps[order]
    members = {group.name: hash(group.ranks) for group in one.layout.groups if len(group.ranks) > 1}
    ops = [index for index, name in enumerate(one.names) if name in SYMMETRIC_OPS]
    calls = one.collectives[np.isin(one.collectives["op"], ops)]
    calls = calls[np.argsort(calls["end_ns"], kind="stable")]
    step_of: dict[tuple[int, int], int] = {}
    ends: dict[int, dict[int, int]] = defaultdict(dict)
    for index in np.unique(calls["group"]).tolist():
        group = members.get(one.name(index))
        if group is not None:
            mine = calls[calls["group"] == index]
            at = mine["step"].tolist()
            step_of |= zip(zip(repeat(group), mine["seq"].tolist(), strict=False), at, strict=True)
            ends[group] |= zip(at, mine["end_ns"].tolist(), strict=True)  # the last one stays
    return _Rank(
        steps=(
            steps["step"].astype(np.int64),
            steps["start_ns"].astype(np.int64),
            steps["end_ns"].astype(np.int64),
        ),
        step_of=step_of,
        ends=ends,
        clock=one.layout.host if reading.is_time_known else "",
    )


def _ahead_by_calls(ranks: Mapping[int, _Rank]) -> dict[int, int]:
    """By how much each rank counts ahead of the first one, by the numbers of the calls they share. 0 where none tells."""
    known: dict[tuple[int, int], int] = {}
    ahead: dict[int, int] = {}
    waiting = list(ranks)
    while waiting:
        placed = next((n for n in waiting if any(call in known for call in ranks[n].step_of)), waiting[0])
        waiting.remove(placed)
        mine = ranks[placed].step_of
        apart = Counter(step - known[call] for call, step in mine.items() if call in known)
        said, votes = apart.most_common(1)[0] if apart else (0, 0)
        ahead[placed] = said if votes and votes >= MIN_AGREED * apart.total() else 0
        for call, step in mine.items():
            known.setdefault(call, step - ahead[placed])
    return ahead


def _ahead_by_ends(ranks: Mapping[int, _Rank]) -> dict[int, int]:
    """The same by when the calls end; each rank is held against the first placed one it shares a group with."""
    ahead: dict[int, int] = {}
    for number, mine in ranks.items():
        peers = [other for other in ahead if set(ranks[other].ends) & set(mine.ends)]
        other = next(iter(peers or ahead), None)
        ahead[number] = 0 if other is None else ahead[other] + _apart(mine, ranks[other])
    return ahead


def _apart(mine: _Rank, other: _Rank) -> int:
    """By how much one rank counts ahead of another, 0 where nothing surely tells."""
    near = _by_time(mine.steps, other.steps)
    share_numbers = bool(np.isin(mine.steps[0], other.steps[0]).any())
    if near is None or (near == 0 and share_numbers):
        return 0
    groups = sorted(set(mine.ends) & set(other.ends))
    if not groups:
        return 0 if share_numbers else near
    step_ns = float(np.median(other.steps[2] - other.steps[1]))
    by_ends = {
        by: _gaps(mine.ends[groups[0]], other.ends[groups[0]], by) for by in {0, near - 1, near, near + 1}
    }
    told = {by: _told(gaps, step_ns) for by, gaps in by_ends.items() if len(gaps)}
    if not share_numbers:
        return min(
            told, key=lambda by: (told[by].scatter if _is_telling(told) else told[by].off, by), default=near
        )
    own = told.get(0)
    nearest = min(told, key=lambda by: told[by].off)
    if own is None or nearest == 0:
        return 0
    if mine.clock and mine.clock == other.clock:
        return nearest if told[nearest].off < SAME_END and own.off > 2 * SAME_END else 0
    is_clear = told[nearest].num >= MIN_STEPS and told[nearest].scatter < TELLING * own.scatter
    return nearest if is_clear else 0


@dataclass(frozen=True)
class _Told:
    """Ends of calls of steps taken for the same: how far off and how scattered, in steps; of how many steps."""

    off: float
    scatter: float
    num: int


def _told(gaps: Ints, step_ns: float) -> _Told:
    middle = float(np.median(gaps))
    scatter = float(np.median(np.abs(gaps - middle)))
    return _Told(off=abs(middle) / max(step_ns, 1.0), scatter=scatter / max(step_ns, 1.0), num=len(gaps))


def _is_telling(told: Mapping[int, _Told]) -> bool:
    """Whether one way to match scatters far less than all others."""
    scatters = sorted(one.scatter for one in told.values() if one.num >= MIN_STEPS)
    return len(scatters) == len(told) > 1 and scatters[0] < TELLING * scatters[1]


def _gaps(mine: Mapping[int, int], other: Mapping[int, int], by: int) -> Ints:
    """Between the ends of the steps that are one if the first counts ahead `by`, ns."""
    return np.array([end - other[step - by] for step, end in mine.items() if step - by in other], np.int64)


def _by_time(mine: Span, other: Span) -> int | None:
    """By how much the first counts ahead where most of its steps lie between the other's beginnings; None if none does."""
    middle = (mine[1] + mine[2]) // 2
    at = np.searchsorted(other[1], middle, side="right") - 1
    until = np.append(other[1][1:], 2 * other[2][-1:] - other[1][-1:])
    inside = (at >= 0) & (middle < until[np.maximum(at, 0)])
    apart = (mine[0] - other[0][np.maximum(at, 0)])[inside]
    return Counter(apart.tolist()).most_common(1)[0][0] if len(apart) else None


def _renumbered(reading: Reading, by: int) -> Reading:
    if not by:
        return reading
    moved = {}
    for kind in DTYPES:
        rows = getattr(reading.records, kind).copy()
        rows["step"] += by
        moved[kind] = rows
    moved["steps"]["user_step"] += by
    return replace(reading, records=replace(reading.records, **moved))


def _unmarked_sentence(unmarked: Sequence[int], by_rank: Mapping[int, Reading]) -> str:
    others = f" (and of {len(unmarked) - 1} more ranks)" if len(unmarked) > 1 else ""
    return (
        f"no step is marked in {by_rank[unmarked[0]].source}, the profile of rank {unmarked[0]}{others}: all of it counts as "
        "one step, which cannot be compared with the others' steps"
    )


def _moved_sentence(moves: Mapping[int, int], ranks: Mapping[int, _Rank], by: str) -> str:
    number, move = next(iter(moves.items()))
    first = int(ranks[number].steps[0].min())
    how = (
        "the numbers of their collectives show"
        if by == "numbers"
        else "the times of their steps and collectives show"
    )
    others = f" (and {len(moves) - 1} more ranks likewise)" if len(moves) > 1 else ""
    return (
        f"rank {number} numbers its steps otherwise than the other ranks{others}: its step {first} is their step "
        f"{first + move}, as {how}"
    )


def _strangers(by_rank: Mapping[int, Reading], ranks: Mapping[int, _Rank]) -> list[str]:
    """A sentence about ranks without a step of any other's."""
    steps = {number: set(by_rank[number].records.steps["step"].tolist()) for number in ranks}
    seen = Counter(step for mine in steps.values() for step in mine)
    alone = [number for number, mine in steps.items() if all(seen[step] == 1 for step in mine)]
    if not alone:
        return []
    number = alone[0]
    span = f"{min(steps[number])} to {max(steps[number])}"
    which = f"rank {number}" if len(alone) == 1 else f"{len(alone)} ranks (rank {number} first)"
    return [f"no step of {which} is one of another rank's ({span} are counted): they cannot be compared"]
