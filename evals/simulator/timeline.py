"""When everything happens: work follows work on a rank, a collective waits for its last member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.evals.simulator.costs import Costs
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Job
from argus.evals.simulator.program import (
    ALL,
    JOIN,
    LAUNCH,
    MEET,
    NORM,
    PAUSE,
    RECV,
    SEND,
    WORK,
    Op,
    program_of,
)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Seconds since the job's start of steps [first_step, first_step + step); infinite = never reached.

    `entry`, `end` by stage: when its ranks began and left each operation (step, operation, rank of the stage);
    what was only launched ends when the transfer does. `start_s`, `end_s` (step, rank) are those of the step.
    """

    first_step: int
    entry: tuple[Floats, ...]
    end: tuple[Floats, ...]
    start_s: Floats
    end_s: Floats

    @property
    def steps(self) -> slice:
        """The job's steps it covers."""
        return slice(self.first_step, self.first_step + len(self.start_s))

    def part(self, steps: range) -> Timeline:
        """Some of its steps."""
        rows = slice(steps.start - self.first_step, steps.stop - self.first_step)
        return Timeline(
            first_step=steps.start,
            entry=tuple(entry[rows] for entry in self.entry),
            end=tuple(end[rows] for end in self.end),
            start_s=self.start_s[rows],
            end_s=self.end_s[rows],
        )


def elapsed(start: Floats, end: Floats) -> Floats:
    """Seconds between two instants, infinite if the later one is never reached. Any shape."""
    spent = np.full(end.shape, np.inf)
    np.subtract(end, start, where=np.isfinite(end), out=spent)
    return spent


def run_timeline(job: Job, costs: Costs, *, steps: range, now_s: Floats) -> Timeline:
    """Play some steps; `now_s` (rank,) is when each rank begins. Step k + 1 starts when step k ended."""
    player = _Player(job, costs, num_steps=len(steps))
    start, end = np.empty((2, len(steps), job.ranks))
    for at, step in enumerate(steps):
        start[at] = now_s
        now_s = end[at] = player.play(at, step, now_s.copy())
    return Timeline(
        first_step=steps.start,
        entry=tuple(player.entry),
        end=tuple(player.end),
        start_s=start,
        end_s=end,
    )


class _Player:
    """Plays one step after the other into preallocated arrays."""

    def __init__(self, job: Job, costs: Costs, *, num_steps: int) -> None:
        self.job, self.costs = job, costs
        self.program, self.shape = program_of(job), shape_of(job)
        self.ops = [self.program.ops(stage) for stage in range(job.pp)]
        self.slices = [slice(*bounds) for bounds in self.shape.stages]
        sizes = [high - low for low, high in self.shape.stages]
        self.entry = [np.empty((num_steps, len(o), n)) for o, n in zip(self.ops, sizes, strict=True)]
        self.end = [np.empty_like(entry) for entry in self.entry]
        self.members = self._members()
        self.wire: dict[tuple[int, str], Floats] = {}
        self.arrival: dict[int, Floats] = {}
        self.how: dict[str, Callable[[int, Op, int, Floats], tuple[Floats, Floats]]] = {
            WORK: self._work,
            MEET: self._meet,
            LAUNCH: self._launch,
            JOIN: self._join,
            SEND: self._send,
            RECV: self._recv,
        }

    def _members(self) -> dict[tuple[int, str], tuple[Ints, slice]]:
        """Per stage and kind the members as rows of the stage, and which of the kind's groups they are."""
        found = {}
        for kind, groups in self.shape.groups.items():
            if kind == "pp":
                continue
            per = len(groups.members) // self.job.pp
            for stage, (low, high) in enumerate(self.shape.stages):
                mine = np.flatnonzero((groups.members[:, 0] >= low) & (groups.members[:, 0] < high))
                assert len(mine) == per and (np.diff(mine) == 1).all(), (kind, stage)
                found[stage, kind] = (groups.members[mine] - low, slice(int(mine[0]), int(mine[-1]) + 1))
        return found

    def play(self, at: int, step: int, now: Floats) -> Floats:
        """Play one step into row `at`; `now` (rank,) is changed and returned."""
        self.wire.clear()
        self.arrival.clear()
        for stage, place in self.program.order:
            if stage == ALL:
                self._all(at, step, place, now)
                continue
            here = now[self.slices[stage]]
            op = self.ops[stage][place]
            self.entry[stage][at, place] = here
            free, end = self.how[op.kind](step, op, stage, here)
            self.end[stage][at, place] = end
            now[self.slices[stage]] = free
        return now

    def _work(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        end = now + self.costs.wall[step, op.slot, self.slices[stage]]
        return end, end

    def _meet(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        end = self._common_end(step, op, stage, now)
        return end, end

    def _launch(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        """Calls of a group go over the wire one after the other."""
        start = np.maximum(now, self.wire.get((stage, op.group), -np.inf))
        end = self.wire[stage, op.group] = self._common_end(step, op, stage, np.asarray(start))
        return now, end

    def _join(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        end = np.maximum(now, self.wire[stage, op.name])
        return end, end

    def _send(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        arrival = now + self.costs.transfers["pp"][step, op.slot, self.slices[stage]]
        self.arrival[op.slot] = arrival
        return now, arrival

    def _recv(self, step: int, op: Op, stage: int, now: Floats) -> tuple[Floats, Floats]:
        end = np.maximum(now, self.arrival[op.slot])
        return end, end

    def _common_end(self, step: int, op: Op, stage: int, entry: Floats) -> Floats:
        """Common end of one call per group: last entry plus transfer. (rank of the stage,)"""
        members, which = self.members[stage, op.group]
        end = np.empty_like(entry)
        last = entry[members].max(axis=1)
        end[members] = (last + self.costs.transfers[op.group][step, op.slot, which])[:, None]
        return end

    def _all(self, at: int, step: int, left: int, now: Floats) -> None:
        """One operation of all ranks, `left` operations before the end of each stage."""
        op = self.ops[0][-1 - left]
        for stage, rows in enumerate(self.slices):
            self.entry[stage][at, -1 - left] = now[rows]
        if op.kind == NORM:
            now[:] = now.max() + self.costs.transfers["world"][step, op.slot].max()
        elif op.kind == PAUSE and self.costs.pauses[op.name][step].any():
            # It ends with a barrier of the world.
            now[:] = (now + self.costs.pauses[op.name][step]).max()
        for stage, rows in enumerate(self.slices):
            self.end[stage][at, -1 - left] = now[rows]
