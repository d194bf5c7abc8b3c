"""What a played mesh left behind, as the windows its ranks' hosts would upload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import CLOCK_GPU, COLLECTIVE, STEP, Rows
from argus.collectors.records.summary import PHASE_CELL, RankWindow

PHASES = ("data", "forward", "backward", "grad_sync", "optimizer")
OPS = ("all_reduce", "reduce_scatter", "all_to_all", "send", "recv")
CPU_SHARE = 0.35
"""CPU time per second of a GPU job's work: it only launches."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the rows belong; `clock_s` and `drift` are of each rank's clock. (rank,)"""

    run: str
    attempt: int
    hosts: tuple[str, ...]
    members: Mapping[str, Ints]
    start_s: float
    clock_s: Floats
    drift: Floats


@dataclass(frozen=True, kw_only=True)
class _Call:
    kind: str
    op: str
    seq: int
    step: int
    phase: str
    rank: Ints
    group: Ints
    entry: Floats
    end: Floats
    peer: Ints | None
    blocks: bool


class Log:
    """Calls and phases of one window as they happen; times are seconds since the job's start."""

    def __init__(self, num_steps: int, num_ranks: int) -> None:
        self.num_steps = num_steps
        self.start, self.stop = np.zeros((num_steps, num_ranks)), np.zeros((num_steps, num_ranks))
        self.spent = np.zeros((num_steps, len(PHASES), num_ranks))
        self.waited = np.zeros_like(self.spent)
        self.calls: list[_Call] = []
        self.step, self.at, self.since = 0, 0, np.zeros(num_ranks)

    def begin(self, step: int, now: Floats) -> None:
        """A step starts on every rank."""
        self.step, self.at, self.since = step, 0, now.reshape(-1).copy()
        self.start[step] = self.since

    def close(self, phase: str, now: Floats) -> None:
        """The phase ended where each rank is now."""
        assert PHASES[self.at] == phase, phase
        self.spent[self.step, self.at] = now.reshape(-1) - self.since
        self.since = now.reshape(-1).copy()
        self.at += 1

    def end(self, now: Floats) -> None:
        """The step ended."""
        self.stop[self.step] = now.reshape(-1)

    def call(
        self,
        kind: str,
        op: str,
        seq: int,
        *,
        rank: Ints,
        group: Ints,
        entry: Floats,
        end: Floats,
        peer: Ints | None = None,
        blocks: bool = True,
    ) -> None:
        """One call of many groups; arrays of one shape."""
        flat = rank.reshape(-1)
        if blocks:
            self.waited[self.step, self.at, flat] += (end - entry).reshape(-1)
        self.calls.append(
            _Call(
                kind=kind,
                op=op,
                seq=seq,
                step=self.step,
                phase=PHASES[self.at],
                rank=flat,
                group=group.reshape(-1),
                entry=entry.reshape(-1),
                end=end.reshape(-1).copy(),
                peer=None if peer is None else peer.reshape(-1),
                blocks=blocks,
            )
        )


def rank_windows(log: Log, place: Place, *, index: int) -> tuple[RankWindow, ...]:
    """The log as one RankWindow per rank."""
    kinds = list(place.members)
    first = index * log.num_steps
    rank, rows = _rows(log, place, kinds, first_step=first)
    bounds = np.searchsorted(rank, np.arange(len(place.hosts) + 1))
    numbers = np.full((len(kinds), len(place.hosts)), -1)
    for row, kind in enumerate(kinds):
        numbers[row, place.members[kind]] = np.arange(len(place.members[kind]))[:, None]
    steps, cells = _steps(log, place, first), _cells(log, first)
    return tuple(
        RankWindow(
            run=place.run,
            attempt=place.attempt,
            rank=one,
            window=index,
            first_step=first,
            num_steps=log.num_steps,
            host=host,
            names=("", *PHASES, *OPS, *(f"{kind}{numbers[row, one]}" for row, kind in enumerate(kinds))),
            steps=steps[one],
            cells=cells[one],
            collectives=rows[bounds[one] : bounds[one + 1]],
        )
        for one, host in enumerate(place.hosts)
    )


def _on_clock(place: Place, rank: Ints, seconds: Floats) -> NDArray[Any]:
    """What each rank's clock says, in nanoseconds."""
    shown = seconds * (1.0 + place.drift[rank]) + place.clock_s[rank]
    return np.rint(shown * 1e9).astype(np.int64) + round(place.start_s) * 1_000_000_000


def _rows(log: Log, place: Place, kinds: list[str], *, first_step: int) -> tuple[Ints, Rows]:
    """All collective rows, sorted by rank and entry, and the rank of each."""
    rank = np.concatenate([call.rank for call in log.calls])
    entry = np.concatenate([call.entry for call in log.calls])
    end = np.concatenate([call.end for call in log.calls])
    lengths = [len(call.rank) for call in log.calls]

    def spread(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), lengths)

    rows = np.zeros(len(rank), COLLECTIVE)
    rows["step"] = spread([first_step + call.step for call in log.calls])
    rows["op"] = spread([1 + len(PHASES) + OPS.index(call.op) for call in log.calls])
    rows["group"] = spread([1 + len(PHASES) + len(OPS) + kinds.index(call.kind) for call in log.calls])
    rows["seq"] = spread([call.seq for call in log.calls])
    rows["phase"] = spread([1 + PHASES.index(call.phase) for call in log.calls])
    rows["peer"] = np.concatenate(
        [np.full(len(call.rank), -1) if call.peer is None else call.peer for call in log.calls]
    )
    rows["bytes"] = 1 << 20
    rows["entry_ns"], rows["end_ns"] = _on_clock(place, rank, entry), _on_clock(place, rank, end)
    blocks = np.repeat([call.blocks for call in log.calls], lengths)
    rows["blocked_ns"] = np.where(blocks, rows["end_ns"] - rows["entry_ns"], 0)
    order = np.lexsort((entry, rank))
    return rank[order], rows[order]


def _steps(log: Log, place: Place, first_step: int) -> Rows:
    """(rank, step) of STEP."""
    ranks = np.arange(len(place.hosts))
    rows = np.zeros((len(ranks), log.num_steps), STEP)
    rows["step"] = first_step + np.arange(log.num_steps)
    rows["user_step"] = -1
    rows["start_ns"] = np.stack([_on_clock(place, ranks, one) for one in log.start], axis=1)
    rows["end_ns"] = np.stack([_on_clock(place, ranks, one) for one in log.stop], axis=1)
    own = (log.spent - log.waited).sum(axis=1).T
    rows["cpu_ns"] = np.rint(own * CPU_SHARE * 1e9)
    return rows


def _cells(log: Log, first_step: int) -> Rows:
    """(rank, step · phase) of PHASE_CELL."""
    num_ranks = log.start.shape[1]
    rows = np.zeros((num_ranks, log.num_steps, len(PHASES)), PHASE_CELL)
    rows["phase"] = rows["native"] = 1 + np.arange(len(PHASES))
    rows["step"] = (first_step + np.arange(log.num_steps))[None, :, None]
    rows["count"], rows["clock"] = 1, CLOCK_GPU
    spent, waited = log.spent.transpose(2, 0, 1), log.waited.transpose(2, 0, 1)
    rows["sum_ns"] = rows["max_ns"] = np.rint(spent * 1e9)
    rows["wait_ns"] = np.rint(waited * 1e9)
    rows["cpu_ns"] = np.rint((spent - waited) * CPU_SHARE * 1e9)
    return rows.reshape(num_ranks, -1)
