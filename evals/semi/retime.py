"""A recording as it would have been, had some ranks been slower for some time: what waits for them moves along.

Own work keeps its length, stretched where the fault is; a call ends as long after its last member came as it did;
who stood in it goes on from there. A long gap between both ends when it ended, counted from the step's begin, unless
the rank itself comes later: what it waited for is not recorded, and taken to be on time. Written apart from the analysis' own replay, which it is to test.
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


_STEP, _GAP, _SLOW = range(3)

LEAST_GAP = 0.01
"""Of a step: time in which neither work nor a call is recorded, and so waiting for something that is not."""


SLACK = 0.01
"""Of a call: who comes to the next one so little before its end has stood in it, by clocks that differ a little."""


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A stretch of a rank's time that is no plain work: a step's begin, a gap, or where the fault is."""

    start: float
    end: float
    kind: int


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
        self.due = self.end - SLACK * (self.end - self.entry)
        self.keys = _keys(records)
        self.new_entry, self.new_end = self.entry.copy(), self.end.copy()
        later = np.append(self.entry[self.order][1:], np.inf)
        self.is_send = np.array([name == "send" for name in records.names])[rows["op"]]
        self.stands = rows["blocked_ns"] > 0
        if not self.stands.any():  # nobody looked at the thread: what the rank does not overlap it stands in
            self.stands[self.order] = later >= self.due[self.order]
        self.stands &= ~self.is_send
        self.is_over = np.zeros(len(rows), np.bool_)
        self.next, self.open, self.blocked_by = 0, list[int](), -1
        first = float(records.steps["start_ns"].min() - base_ns)
        self.knots: list[tuple[float, float]] = [(first, first)]
        self.pieces, self.at, self.shift = _pieces(records, slow, base_ns=base_ns), 0, 0.0

    def goes_on(self) -> bool:
        """Whether the rank gets to its next call: those it stood in before are over. False at the end too."""
        row = int(self.order[self.next]) if self.next < len(self.order) else -1
        until = float(self.entry[row]) if row >= 0 else np.inf
        while self.open and self.due[self.open[0]] <= until:
            self.blocked_by = self.open[0]
            if not self.is_over[self.blocked_by]:
                return False
            self._at(float(self.end[self.blocked_by]), float(self.new_end[self.blocked_by]))
            self.open.pop(0)
        self.blocked_by = -1
        return row >= 0

    def come(self) -> int:
        """Go on to the next call; its row."""
        row = int(self.order[self.next])
        self.next += 1
        self._work_until(float(self.entry[row]))
        self.new_entry[row] = self.knots[-1][1]
        if self.stands[row]:
            self.open = sorted([*self.open, row], key=lambda one: self.due[one])
        return row

    def leave(self, row: int, end: float) -> None:
        """The call of a row is over at `end`."""
        self.new_end[row], self.is_over[row] = end, True

    def _work_until(self, time: float) -> None:
        old, new = self.knots[-1]
        while self.at < len(self.pieces) and self.pieces[self.at].start < time:
            piece = self.pieces[self.at]
            begin, stop = max(piece.start, old), min(piece.end, time)
            if stop >= begin:
                new += begin - old
                self._at(begin, new)
                new = self._after(piece, begin, stop, new)
                old = stop
                self._at(old, new)
            if piece.end > time:
                break
            self.at += 1
        self._at(time, new + time - old)

    def _after(self, piece: _Piece, begin: float, stop: float, new: float) -> float:
        """When the rank has come to the end of a piece, begun at `new`."""
        if piece.kind == _STEP:
            self.shift = new - begin
            return new
        if piece.kind == _GAP:
            return max(new, stop + self.shift)
        assert self.slow is not None
        return new + (stop - begin) * self.slow.factor

    def _at(self, old: float, new: float) -> None:
        last_old, last_new = self.knots[-1]
        if old > last_old:
            self.knots.append((old, max(new, last_new)))
        elif old == last_old:
            self.knots[-1] = (old, max(new, last_new))

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


def _pieces(records: RankRecords, slow: Slow | None, *, base_ns: int) -> list[_Piece]:
    """In order of time, disjoint."""
    begins = records.steps["start_ns"] - base_ns
    found = [_Piece(start=float(at), end=float(at), kind=_STEP) for at in begins]
    found += [_Piece(start=a, end=b, kind=_GAP) for a, b in _gaps(records, base_ns)]
    if slow is not None:
        pairs = zip((slow.start_ns - base_ns).tolist(), (slow.end_ns - base_ns).tolist(), strict=True)
        found += [_Piece(start=float(a), end=float(b), kind=_SLOW) for a, b in pairs]
    return sorted(found, key=lambda one: (one.start, one.kind))


def _gaps(records: RankRecords, base_ns: int) -> list[tuple[float, float]]:
    """Stretches inside of steps without any recorded work or call."""
    phases, calls = records.phases, records.collectives
    is_work = np.array([name != "other" for name in records.names])[phases["name"]]
    starts = np.concatenate([phases["start_ns"][is_work], calls["entry_ns"]]) - base_ns
    ends = np.concatenate([(phases["start_ns"] + phases["dur_ns"])[is_work], calls["end_ns"]]) - base_ns
    order = np.argsort(starts, kind="stable")
    until = np.maximum.accumulate(ends[order])
    begin_ns: Ints = records.steps["start_ns"]
    end_ns: Ints = records.steps["end_ns"]
    least = LEAST_GAP * float(np.median(end_ns - begin_ns))
    begins = np.sort(begin_ns - base_ns)
    found = []
    for stop, begin in zip(until[:-1].tolist(), starts[order][1:].tolist(), strict=True):
        if begin - stop >= least and np.searchsorted(begins, stop, "right") == np.searchsorted(
            begins, begin, "right"
        ):
            found.append((float(stop), float(begin)))
    return found


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
            while rank.goes_on():
                row = rank.come()
                call = calls[rank.keys[row]]
                call.come.append((rank, row))
                if len(call.come) >= call.size or call.is_over:
                    going += _meet(call)
        # Calls in another order on two ranks: the one whose members came first is over without the rest.
        stuck = [calls[rank.keys[rank.blocked_by]] for rank in ranks if rank.blocked_by >= 0]
        if stuck:
            going += _meet(min(stuck, key=_last_entry))


def _last_entry(call: _Call) -> float:
    return max(float(rank.new_entry[row]) for rank, row in call.come)


def _meet(call: _Call) -> list[_Rank]:
    """The call's end for all who came, and who they are."""
    call.is_over = True
    old_last = max(float(rank.entry[row]) for rank, row in call.come)
    new_last = _last_entry(call)
    for rank, row in call.come:
        begun, old_end = float(rank.new_entry[row]), float(rank.end[row])
        end = new_last + old_end - old_last
        if rank.is_send[row] and old_end < old_last:  # handed over before anybody asked for it
            end = begun + old_end - float(rank.entry[row])
        rank.leave(row, max(end, begun))
    freed = [rank for rank, _ in call.come]
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
    start: Ints = rows["start_ns"]
    dur: Ints = rows["dur_ns"]
    moved["start_ns"] = warp(start)
    moved["dur_ns"] = warp(start + dur) - warp(start)
    if "launch_ns" in (rows.dtype.names or ()):
        launch: Ints = rows["launch_ns"]
        moved["launch_ns"] = np.where(launch > 0, warp(launch), launch)
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
