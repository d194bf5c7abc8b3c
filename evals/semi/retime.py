"""A recording as it would have been, had some ranks been slower for some time: what waits for them moves along.

Own work keeps its length, stretched where the fault is; a call ends as long after its last member came as it did;
who stood in it goes on from there. Written apart from the analysis' own replay, which it is to test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.events import RankRecords, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Stretches of own work, disjoint and in order, that take `factor` times as long. (stretch,)"""

    start_ns: Ints
    end_ns: Ints
    factor: float


@dataclass(frozen=True, kw_only=True)
class Warp:
    """From a rank's recorded times to those it would have had."""

    old_ns: Floats
    new_ns: Floats
    base_ns: int

    def __call__(self, times_ns: Ints) -> Ints:
        """The times moved; before the first and after the last known one by as much as that one."""
        at = (times_ns - self.base_ns).astype(np.float64)
        moved = np.interp(at, self.old_ns, self.new_ns)
        moved = np.where(at < self.old_ns[0], at + self.new_ns[0] - self.old_ns[0], moved)
        moved = np.where(at > self.old_ns[-1], at + self.new_ns[-1] - self.old_ns[-1], moved)
        return np.asarray(np.rint(moved), np.int64) + self.base_ns


def retimed(
    records: Sequence[RankRecords], slow: Mapping[int, Slow]
) -> tuple[tuple[RankRecords, ...], dict[int, Warp]]:
    """All ranks' records with the faults in them, and how each rank's times moved."""
    base_ns = min(int(one.steps["start_ns"].min()) for one in records)
    ranks = [_Rank(one, slow.get(one.layout.rank), base_ns=base_ns) for one in records]
    _play(ranks)
    warps = {one.records.layout.rank: one.warp(base_ns) for one in ranks}
    return tuple(one.moved(warps[one.records.layout.rank], base_ns) for one in ranks), warps


@dataclass
class _Call:
    """Members' rows as they come: (rank, row)."""

    size: int
    come: list[tuple[_Rank, int]] = field(default_factory=list)
    is_over: bool = False


class _Rank:
    """How far one rank has come; times are nanoseconds since `base_ns`."""

    def __init__(self, records: RankRecords, slow: Slow | None, *, base_ns: int) -> None:
        rows = records.collectives
        self.records, self.slow, self.base_ns = records, slow, base_ns
        self.order = np.argsort(rows["entry_ns"], kind="stable")
        self.entry = (rows["entry_ns"] - base_ns).astype(np.float64)
        self.end = (rows["end_ns"] - base_ns).astype(np.float64)
        self.keys = _keys(records)
        self.new_entry, self.new_end = self.entry.copy(), self.end.copy()
        later = np.append(self.entry[self.order][1:], np.inf)
        is_send = np.array([name == "send" for name in records.names])[rows["op"]]
        self.stands = np.zeros(len(rows), np.bool_)
        self.stands[self.order] = (later >= self.end[self.order]) & ~is_send[self.order]
        self.next, self.stood_at = 0, -1
        first = float(records.steps["start_ns"].min() - base_ns)
        self.knots: list[tuple[float, float]] = [(first, first)]

    def come(self) -> int:
        """Go on to the next call; its row."""
        row = int(self.order[self.next])
        self.next += 1
        self._work_until(float(self.entry[row]))
        self.new_entry[row] = self.knots[-1][1]
        self.stood_at = row if self.stands[row] else -1
        return row

    def leave(self, row: int, end: float) -> None:
        """The call of a row is over at `end`."""
        self.new_end[row] = end
        if self.stood_at == row:
            self.stood_at = -1
            self._at(float(self.end[row]), end)

    def _work_until(self, time: float) -> None:
        old, new = self.knots[-1]
        if self.slow is not None:
            starts, ends = self.slow.start_ns - self.base_ns, self.slow.end_ns - self.base_ns
            for at in range(int(np.searchsorted(ends, old, "right")), int(np.searchsorted(starts, time))):
                begin, stop = max(float(starts[at]), old), min(float(ends[at]), time)
                new += begin - old
                self._at(begin, new)
                new += (stop - begin) * self.slow.factor
                old = stop
                self._at(old, new)
        self._at(time, new + time - old)

    def _at(self, old: float, new: float) -> None:
        if old > self.knots[-1][0]:
            self.knots.append((old, new))
        elif old == self.knots[-1][0]:
            self.knots[-1] = (old, max(new, self.knots[-1][1]))

    def warp(self, base_ns: int) -> Warp:
        self._work_until(float(self.records.steps["end_ns"].max() - base_ns))
        old, new = np.array(self.knots).T
        return Warp(old_ns=old, new_ns=new, base_ns=base_ns)

    def moved(self, warp: Warp, base_ns: int) -> RankRecords:
        """The records at their new times."""
        one = self.records
        calls = one.collectives.copy()
        calls["entry_ns"] = np.rint(self.new_entry).astype(np.int64) + base_ns
        calls["end_ns"] = np.rint(self.new_end).astype(np.int64) + base_ns
        longer = (calls["end_ns"] - calls["entry_ns"]) - (
            one.collectives["end_ns"] - one.collectives["entry_ns"]
        )
        stood = calls["blocked_ns"] > 0
        calls["blocked_ns"][stood] = np.maximum(calls["blocked_ns"] + longer, 0)[stood]
        steps = one.steps.copy()
        for name in ("start_ns", "end_ns"):
            steps[name] = warp(one.steps[name])
        return replace(
            one,
            steps=steps,
            collectives=calls,
            phases=_phases(one.phases, warp, self.slow),
            kernels=_spans(one.kernels, warp),
            events=_spans(one.events, warp),
        )


def _play(ranks: Sequence[_Rank]) -> None:
    """Every rank's calls in its own order; nobody goes on from one it stands in before all have come."""
    sizes: dict[Hashable, int] = defaultdict(int)
    for rank in ranks:
        for key in rank.keys:
            sizes[key] += 1
    calls = {key: _Call(size=size) for key, size in sizes.items()}
    going = list(ranks)
    while going:
        while going:
            rank = going.pop()
            while rank.next < len(rank.order) and rank.stood_at < 0:
                row = rank.come()
                call = calls[rank.keys[row]]
                call.come.append((rank, row))
                if len(call.come) >= call.size or call.is_over:
                    going += _meet(call)
        # Calls in another order on two ranks: the one whose members came first is over without the rest.
        stuck = [calls[rank.keys[rank.stood_at]] for rank in ranks if rank.stood_at >= 0]
        if stuck:
            going += _meet(min(stuck, key=_last_entry))


def _last_entry(call: _Call) -> float:
    return max(float(rank.new_entry[row]) for rank, row in call.come)


def _meet(call: _Call) -> list[_Rank]:
    """The call's end for all who came; those who stood in it."""
    call.is_over = True
    old_last = max(float(rank.entry[row]) for rank, row in call.come)
    new_last = _last_entry(call)
    freed = []
    for rank, row in call.come:
        old_end, alone = float(rank.end[row]), float(rank.end[row] - rank.entry[row])
        waited = old_end >= old_last
        freed += [rank] if rank.stood_at == row else []
        rank.leave(row, new_last + old_end - old_last if waited else float(rank.new_entry[row]) + alone)
    call.come.clear()
    return freed


def _keys(records: RankRecords) -> list[Hashable]:
    """What tells the calls of a rank apart, the same on all members."""
    rank, names = records.layout.rank, records.names
    members = {group.name: group.ranks for group in records.layout.groups}
    keys: list[Hashable] = []
    for row in records.collectives:
        group, op, seq = names[row["group"]], names[row["op"]], int(row["seq"])
        who = members.get(group) or group
        if op in ("send", "recv"):
            pair = (rank, int(row["peer"])) if op == "send" else (int(row["peer"]), rank)
            keys.append((who, "pair", pair, seq))
        else:
            keys.append((who, op, seq))
    return keys


def _spans(rows: Rows, warp: Warp) -> Rows:
    """Rows with a start and a length; what says when the host launched them moves too."""
    moved = rows.copy()
    moved["start_ns"] = warp(rows["start_ns"])
    moved["dur_ns"] = warp(rows["start_ns"] + rows["dur_ns"]) - moved["start_ns"]
    if "launch_ns" in (rows.dtype.names or ()):
        moved["launch_ns"] = np.where(rows["launch_ns"] > 0, warp(rows["launch_ns"]), rows["launch_ns"])
    return moved


def _phases(rows: Rows, warp: Warp, slow: Slow | None) -> Rows:
    """Waiting inside of a phase is what its own work, stretched with the fault, leaves of it."""
    moved = _spans(rows, warp)
    own = (rows["dur_ns"] - rows["wait_ns"]).astype(np.float64)
    if slow is not None:
        at = np.searchsorted(slow.start_ns, rows["start_ns"], "right") - 1
        inside = (at >= 0) & (rows["start_ns"] < slow.end_ns[np.maximum(at, 0)])
        own = np.where(inside, own * slow.factor, own)
    waits = rows["wait_ns"] > 0
    moved["wait_ns"][waits] = np.clip(moved["dur_ns"] - np.rint(own).astype(np.int64), 0, None)[waits]
    return moved
