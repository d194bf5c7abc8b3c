"""What the steps of a window would take if some ranks or paths were well, by replay of its calls.

Own work begins when the rank is released, a call ends its transfer after its last member came, a receiver
waits for its sender: the dependencies of a step as its calls recorded them, over pipeline, tensor and data groups
alike (method of arXiv 2505.05713 §3, without timers of the framework).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.collectives import PAIRED
from argus.analytics.delays import paths_of
from argus.analytics.ordering import numbered, packed, stable_order
from argus.analytics.peers import work_classes
from argus.analytics.robust import grouped_median
from argus.analytics.rounds import Round, rounds, rows_of
from argus.analytics.route import one_per_spot
from argus.analytics.waits import Waits, same_work, waiting_steps
from argus.analytics.window import Bools, Floats, Ints, Window
from argus.analytics.work import EXPERT_UNITS, WORKED, explain

MAX_ROWS = 400_000
"""Rows that are replayed: all steps of most jobs, one step of ten thousand ranks; an incident must not wait for it."""

MAX_RANKS = 2048
"""Ranks whose calls are read back to be replayed when somebody asks: half a second of so many."""

RECORDED = 0
"""The column of what is played at once that holds what was."""

EXPERTS = "ep"
"""Kind of the groups over which tokens are routed to experts."""


@dataclass(frozen=True, kw_only=True)
class StepGain:
    """Means over `num_steps` steps: `gain_s` = what a step would be shorter by, `error` = how far the replay of the
    recorded durations is off the recorded end of the calls, as share of them."""

    gain_s: float
    error: float
    num_steps: int


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """What is played as if it were well: ranks that take what their peers take between the same calls, the part of
    its own work (1 = all) each of some ranks takes, the part of their transfers calls of some paths (`delays`) take."""

    as_peers: frozenset[int] = frozenset()
    own_parts: Mapping[int, float] = field(default_factory=dict)
    wire_parts: Mapping[str, float] = field(default_factory=dict)


def joined(remedies: Sequence[Remedy]) -> Remedy:
    """All of them at once; of two parts of one thing the smaller."""
    own: dict[int, float] = {}
    wire: dict[str, float] = {}
    for one in remedies:
        own |= {rank: min(part, own.get(rank, part)) for rank, part in one.own_parts.items()}
        wire |= {path: min(part, wire.get(path, part)) for path, part in one.wire_parts.items()}
    return Remedy(
        as_peers=frozenset[int]().union(*(one.as_peers for one in remedies)), own_parts=own, wire_parts=wire
    )


def has_pipeline(calls: Calls) -> bool:
    """Whether ranks send one another what they made: the records of a pipeline."""
    return bool(calls.is_op(*PAIRED).any())


def step_gain(window: Window, waits: Waits, ranks: Collection[int]) -> StepGain | None:
    """The gain if `ranks` took what their peers take between the same calls; None without a step to replay."""
    return next(iter(remedy_gains(window, waits, (Remedy(as_peers=frozenset(ranks)),))), None)


def remedy_gains(
    window: Window, waits: Waits, remedies: Sequence[Remedy], *, suspects: Collection[int] = ()
) -> tuple[StepGain, ...]:
    """The gain by each of the remedies, none without a step to replay; `suspects` are no peers where they are many."""
    calls = _some_steps(window, waits.calls, columns=len(remedies))
    if not len(calls.first):
        return ()
    played = np.isin(waits.calls.step, calls.step)[waits.calls.call]
    excess_s = beyond_peers(window, waits, suspects)[played]
    path, names = paths_of(window, calls)
    work_s, transfer_s = [], []
    for remedy in remedies:
        sick = np.isin(window.ranks, list(remedy.as_peers))
        own = np.array([remedy.own_parts.get(rank, 1.0) for rank in window.ranks.tolist()])
        wire = np.array([remedy.wire_parts.get(name, 1.0) for name in names])
        work_s.append(
            own[calls.rank] * np.nan_to_num(calls.work_s) - np.where(sick[calls.rank], excess_s, 0.0)
        )
        transfer_s.append(wire[path] * calls.transfer_s)
    return _gains(window, calls, work_s=work_s, transfer_s=transfer_s)


HALF = 0.5
"""Of those who do the same work so many that are suspected make the median tell nothing of the healthy."""


def beyond_peers(window: Window, waits: Waits, suspects: Collection[int]) -> Floats:
    """Own work before each call beyond the median of ranks doing the same, of those who are well where half of them
    are suspected. (row,)"""
    calls, classes = waits.calls, work_classes(window.topology, window.ranks)
    excess_s = np.maximum(waits.excess_s, 0.0)
    seen = np.isfinite(window.step_s).any(axis=1)
    is_sick = seen & np.isin(window.ranks, list(suspects))
    for number in np.unique(classes[is_sick]):
        mine = (classes == number) & seen
        if (mine & is_sick).sum() < HALF * mine.sum() or not (mine & ~is_sick).any():
            continue
        rows = np.flatnonzero(mine[calls.rank] & np.isfinite(calls.work_s))
        same, count = same_work(calls, classes, rows)
        is_well = ~is_sick[calls.rank[rows]]
        well = np.full(count, np.nan)
        told, place = np.unique(same[is_well], return_inverse=True)
        well[told] = grouped_median(calls.work_s[rows][is_well], place.reshape(-1), len(told))
        # Few who are well stray by themselves: what is below them counts against what is above.
        known = np.isfinite(well[same])
        excess_s[rows[known]] = (calls.work_s[rows] - well[same])[known]
    return excess_s


def what_if_gains(window: Window, waits: Waits) -> dict[str, StepGain]:
    """Gains by name: without the time collectives take to transfer, with experts' work even in their groups, and with
    every rank's compute at the mean of what the lengths of their sequences ask for."""
    calls = _some_steps(window, waits.calls)
    if not len(calls.first):
        return {}
    work_s, wire_s = np.nan_to_num(calls.work_s), calls.transfer_s
    cases = {"exposed communication": (work_s, np.where(calls.is_op(*PAIRED), wire_s, 0.0))}
    routed = np.array([name.partition("/")[0] == EXPERTS for name in window.groups] or [False])[calls.group]
    if routed.any():
        mean_s = np.bincount(calls.call, work_s) / calls.size
        cases["expert imbalance"] = (np.where(routed[calls.call], mean_s[calls.call], work_s), wire_s)
    even = _with_even_lengths(window)
    if even is not None:
        column = calls.step[calls.call] - window.first_step
        cases["length imbalance"] = (work_s * even[calls.rank, column], wire_s)
    work, wire = zip(*cases.values(), strict=True)
    return dict(zip(cases, _gains(window, calls, work_s=work, transfer_s=wire), strict=True))


def _with_even_lengths(window: Window) -> Floats | None:
    """Part of its own time each rank would take if it had the mean work of its class in every step; None where the
    ranks tell no work but what is routed to experts, or it explains nothing. (rank, step)"""
    explained = explain(window, but=EXPERT_UNITS)
    if explained is None:
        return None
    classes, own_s = work_classes(window.topology, window.ranks), window.self_s.sum(axis=0)
    less_s = np.zeros(own_s.shape)
    for place, phase in enumerate(WORKED):
        if phase not in window.phases:
            continue
        factor = explained.factor[place]
        for number in np.unique(classes):
            rows = classes == number
            mean = factor[rows].mean(axis=0)
            less_s[rows] += window.self_s[window.phases.index(phase)][rows] * (1 - mean / factor[rows])
    return np.asarray(np.nan_to_num(1 - less_s / np.maximum(own_s, 1e-12), nan=1.0))


def _gains(
    window: Window, calls: Calls, *, work_s: Sequence[Floats], transfer_s: Sequence[Floats]
) -> tuple[StepGain, ...]:
    """What each pair of own work (row,) and transfers (call,) gains over the recorded one."""
    played = _Stage(calls, num_ranks=len(window.ranks)).play(
        np.stack([np.nan_to_num(calls.work_s), *work_s], axis=1),
        np.stack([calls.transfer_s, *transfer_s], axis=1),
    )
    begun = _per_step(calls, calls.entry_s, worst=False)
    recorded = _per_step(calls, calls.end_s, worst=True) - begun
    off = np.abs((played[:, RECORDED] - begun) / np.maximum(recorded, 1e-12) - 1)
    return tuple(
        StepGain(
            gain_s=max(float((played[:, RECORDED] - played[:, case]).mean()), 0.0),
            error=float(np.median(off)),
            num_steps=len(begun),
        )
        for case in range(1, played.shape[1])
    )


def _some_steps(window: Window, calls: Calls, *, columns: int = 1) -> Calls:
    """The calls of as many steps as may be replayed in so many ways, evenly chosen among those whose waiting is their
    own."""
    steps = np.intersect1d(waiting_steps(window), calls.step)
    if not len(steps):
        return _only(calls, np.zeros(len(calls.first), np.bool_))
    fits = max(int(MAX_ROWS * len(np.unique(calls.step)) / max(len(calls.call) * columns, 1)), 1)
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, min(fits, len(steps))).astype(np.int64))]
    return _only(calls, np.isin(calls.step, chosen))


def _only(calls: Calls, chosen: Bools) -> Calls:
    """Some of the calls, whole and in their order."""
    if chosen.all():
        return calls
    which = np.flatnonzero(chosen)
    rows, size = rows_of(calls, which), calls.size[which]
    step = np.repeat(calls.step[which], size)
    return Calls(
        call=np.repeat(np.arange(len(which)), size),
        rank=calls.rank[rows],
        entry_s=calls.entry_s[rows],
        work_s=calls.work_s[rows],
        place=calls.place[rows],
        order=stable_order(packed(calls.rank[rows], step, calls.place[rows])),
        synced=calls.synced[rows],
        source=calls.source[rows],
        first=np.cumsum(size) - size,
        size=size,
        group=calls.group[which],
        step=calls.step[which],
        seq=calls.seq[which],
        op_code=calls.op_code[which],
        ops=calls.ops,
        end_s=calls.end_s[which],
        transfer_s=calls.transfer_s[which],
        by_durations=calls.by_durations[which],
        one_way=calls.one_way[which],
        cut_group=calls.cut_group,
        cut_step=calls.cut_step,
    )


def _per_step(calls: Calls, times_s: Floats, *, worst: bool) -> Floats:
    """Latest or earliest time of each step. (step,) in ascending order"""
    steps, page = np.unique(calls.step, return_inverse=True)
    page = page.reshape(-1)
    mine = page if len(times_s) == len(page) else page[calls.call]
    found = np.full(len(steps), -np.inf if worst else np.inf)
    (np.maximum if worst else np.minimum).at(found, mine, times_s)
    return found


class _Stage:
    """Plays the calls of all steps at once, each step from when its ranks were released before it."""

    def __init__(self, calls: Calls, *, num_ranks: int) -> None:
        self.calls, self.num_ranks = calls, num_ranks
        pages, page = np.unique(calls.step, return_inverse=True)
        self.num_pages = len(pages)
        self.spot = page.reshape(-1)[calls.call] * num_ranks + calls.rank
        self.wire = _wires(calls)
        (walk,) = rounds(calls, chain=self.spot)
        self.turns = tuple(walk)

    def play(self, work_s: Floats, transfer_s: Floats) -> Floats:
        """When the last rank is free of its last call, (step, column); `work_s` (row, column), `transfer_s` (call,
        column)."""
        self.free = self._released(work_s.shape[1])
        self.work_s, self.transfer_s = work_s, transfer_s
        self.posted = np.full(work_s.shape, -np.inf)
        self.wire_free = np.full((int(self.wire.max(initial=-1)) + 1, work_s.shape[1]), -np.inf)
        for turn in self.turns:
            self._turn(turn)
        by_rank = self.free.reshape(self.num_pages, self.num_ranks, -1)
        return np.asarray(by_rank.max(axis=1))

    def _released(self, columns: int) -> Floats:
        """When each rank began to work towards its first call of each step, −inf for those without one."""
        calls, order = self.calls, self.calls.order
        free = np.full((self.num_pages * self.num_ranks, columns), -np.inf)
        _, first = np.unique(self.spot[order], return_index=True)
        rows = order[first]
        free[self.spot[rows]] = (calls.entry_s[rows] - np.nan_to_num(calls.work_s[rows]))[:, None]
        return free

    def _turn(self, turn: Round) -> None:
        calls = self.calls
        for rows in one_per_spot(turn.posts, self.spot):
            self.posted[rows] = self.free[self.spot[rows]] + self.work_s[rows]
            self.free[self.spot[rows]] = self.posted[rows]
        for size in np.unique(calls.size[turn.calls]):
            self._meet(turn.calls[calls.size[turn.calls] == size])

    def _meet(self, which: Ints) -> None:
        """Calls of one size: who sends has come before, the others come now."""
        calls = self.calls
        rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
        spot, here = self.spot[rows], ~calls.source[rows]
        come = np.where(here[..., None], self.free[spot] + self.work_s[rows], self.posted[rows])
        begun = np.maximum(come.max(axis=1), self.wire_free[self.wire[which]])
        end = begun + self.transfer_s[which]
        self.wire_free[self.wire[which]] = end
        stood = (calls.synced[rows] & here)[..., None]
        left = np.where(stood, np.maximum(end[:, None, :], come), come)
        self.free[spot[here]] = left[here]


def _wires(calls: Calls) -> Ints:
    """What calls of a step queue for: their group, or for a pair the two and the direction. (call,)"""
    paired = calls.is_op(*PAIRED)
    one = np.where(paired, calls.rank[calls.first], -1)
    other = np.where(paired, calls.rank[calls.first + calls.size - 1], -1)
    forth = np.where(paired, calls.source[calls.first], False).astype(np.int64)
    if not len(calls.first):
        return np.empty(0, np.int64)
    return numbered(packed(calls.step, calls.group, one, other, forth))[0]
