"""The generator: a job, its faults and a random generator in, every rank's records or windows out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from argus.analytics.window import Bools, Floats
from argus.collectors.records.events import RankRecords
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.beats import beat
from argus.evals.simulator.clocks import Clocks, draw_clocks
from argus.evals.simulator.costs import Costs, draw_costs
from argus.evals.simulator.emit import (
    Emitter,
    collective_rows,
    event_rows,
    kept,
    phase_rows,
    step_rows,
)
from argus.evals.simulator.faults import apply_faults
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.host_use import HostUse
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.kernel_emit import kernels_of
from argus.evals.simulator.names import names_of
from argus.evals.simulator.program import program_of
from argus.evals.simulator.timeline import Timeline, run_timeline
from argus.evals.simulator.windows import stage_windows

DEAD_AFTER_S = 0.05
"""A lost rank's process vanishes so long after its last forward began."""

CHUNK_STEPS = 50
"""Steps played at once where only their ends are wanted: bounds memory, not results."""

HELD_INSTANTS = 2_000_000
"""Of a job with so many entries into operations every instant is kept, 32 MB: it is played once and not three times."""


@dataclass(frozen=True, kw_only=True)
class ClosedWindow:
    """All ranks' parts of a window, and when its last step ended (seconds since the job's start)."""

    index: int
    end_s: float
    parts: tuple[RankWindow, ...]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A job that has run. `layouts` are of the ranks that report, `dead_s` (rank,) when a process vanished.

    `start_s`, `end_s` (step, rank) and `dead_s` are in seconds since the job's start, on a perfect clock.
    `lost` (step, rank) are steps whose records were dropped. `held` is the timeline of a small job.
    """

    job: Job
    layouts: tuple[Layout, ...]
    costs: Costs
    clocks: Clocks
    lost: Bools
    start_s: Floats
    end_s: Floats
    dead_s: Floats
    held: Timeline | None = None

    @cached_property
    def timeline(self) -> Timeline:
        """Every operation of every step: for jobs small enough to hold it."""
        return self.held or run_timeline(
            self.job, self.costs, steps=range(self.job.steps), now_s=np.zeros(self.job.ranks)
        )

    @cached_property
    def records(self) -> tuple[RankRecords, ...]:
        """What the collectors of all ranks wrote, for small jobs."""
        return tuple(
            record for stage in range(self.job.pp) for record in self._stage_records(self._emitter(stage))
        )

    def _emitter(self, stage: int, times: Timeline | None = None) -> Emitter:
        return Emitter(
            job=self.job,
            costs=self.costs,
            clocks=self.clocks,
            names=names_of(self.job),
            times=times or self.timeline,
            stage=stage,
            lost=self.lost,
            host_use=self.host_use,
        )

    @cached_property
    def host_use(self) -> HostUse:
        """What the hosts' kernels count meanwhile."""
        return HostUse(job=self.job, costs=self.costs, start_s=self.start_s, end_s=self.end_s)

    def _stage_records(self, source: Emitter) -> Iterator[RankRecords]:
        steps, phases = step_rows(source), phase_rows(source)
        collectives, events = collective_rows(source), event_rows(source)
        who = {layout.rank: layout for layout in self.layouts}
        for row, rank in enumerate(range(source.ranks.start, source.ranks.stop)):
            if rank not in who:
                continue
            num_lost = int(self.lost[:, rank].sum())
            yield RankRecords(
                layout=who[rank],
                names=source.names.of_rank(rank),
                dropped={"ring_full": num_lost} if num_lost else {},
                steps=kept(steps, row),
                phases=kept(phases, row),
                collectives=kept(collectives, row),
                events=kept(events, row),
                kernels=kernels_of(source, row, calls=collectives),
                looks=self.host_use.looks(rank, self.clocks),
            )

    def windows(self, plan: WindowPlan) -> Iterator[ClosedWindow]:
        """Every window all of whose steps ended, in order; one window is in memory at a time."""
        now_s = np.zeros(self.job.ranks)
        for index in range(plan.index(self.job.steps - 1) + 1):
            first, end = plan.bounds(index)
            steps = range(first, min(end, self.job.steps))
            if not np.isfinite(self.end_s[steps.stop - 1]).all():
                return
            times = self.held and self.held.part(steps)
            times = times or run_timeline(self.job, self.costs, steps=steps, now_s=now_s)
            now_s = times.end_s[-1]
            parts = tuple(
                part
                for stage in range(self.job.pp)
                for part in stage_windows(self._emitter(stage, times), index=index, num_steps=end - first)
            )
            yield ClosedWindow(index=index, end_s=float(now_s.max()), parts=parts)

    def beats(self, now_s: float) -> tuple[Heartbeat, ...]:
        """Heartbeats of the ranks that report at Unix time `now_s`; for small jobs."""
        since_s = now_s - self.job.start_s
        return tuple(
            beat(self.job, self.timeline, layout.rank, now_s=since_s, dead_s=float(self.dead_s[layout.rank]))
            for layout in self.layouts
        )

    @property
    def last_end_s(self) -> float:
        """Unix time of the end of the last step of any rank."""
        ended = self.end_s[np.isfinite(self.end_s)]
        return self.job.start_s + (float(ended.max()) if len(ended) else 0.0)


def simulate(job: Job, faults: Sequence[Fault] = (), *, rng: np.random.Generator) -> Simulation:
    """Run `job` with all `faults` on it.

    >>> rng = np.random.default_rng(1)
    >>> done = simulate(Job(ranks=4, steps=20), [Fault(kind="compute", ranks=(2,))], rng=rng)
    >>> len(done.records), len(done.records[2].steps)
    (4, 20)
    """
    all_faults = tuple(faults)
    costs = draw_costs(job, all_faults, rng=rng)
    apply_faults(costs, all_faults, job, rng=rng)
    clocks = draw_clocks(job, all_faults, rng=rng)
    lost = np.zeros((job.steps, job.ranks), np.bool_)
    if job.lost_step_probability:
        lost = rng.random(lost.shape) < job.lost_step_probability
    for fault in all_faults:
        if fault.kind == "gap":
            lost[fault.steps(job), list(fault.ranks)] = True
    held = _held(job, costs)
    start_s, end_s = (held.start_s, held.end_s) if held else _marks(job, costs)
    done = Simulation(
        job=job,
        layouts=tuple(layout for layout in layouts(job) if layout.rank not in job.missing),
        costs=costs,
        clocks=clocks,
        lost=lost,
        start_s=start_s,
        end_s=end_s,
        dead_s=np.full(job.ranks, np.inf),
        held=held,
    )
    return replace(done, dead_s=_deaths(done, all_faults))


def _held(job: Job, costs: Costs) -> Timeline | None:
    """Every instant of a small job."""
    program = program_of(job)
    num_ops = sum(len(program.ops(stage)) for stage in range(job.pp))
    if job.steps * num_ops * (job.ranks // job.pp) > HELD_INSTANTS:
        return None
    return run_timeline(job, costs, steps=range(job.steps), now_s=np.zeros(job.ranks))


def _marks(job: Job, costs: Costs) -> tuple[Floats, Floats]:
    """Start and end of every step. (step, rank)"""
    now_s = np.zeros(job.ranks)
    parts = []
    for first in range(0, job.steps, CHUNK_STEPS):
        steps = range(first, min(first + CHUNK_STEPS, job.steps))
        times = run_timeline(job, costs, steps=steps, now_s=now_s)
        now_s = times.end_s[-1]
        parts.append((times.start_s, times.end_s))
    starts, ends = zip(*parts, strict=True)
    return np.concatenate(starts), np.concatenate(ends)


def _deaths(done: Simulation, faults: Sequence[Fault]) -> Floats:
    """A lost rank dies soon after its data came."""
    dead_s = np.full(done.job.ranks, np.inf)
    for fault in faults:
        if fault.kind == "lost" and fault.start_step < done.job.steps:
            ranks = list(fault.ranks)
            data_s = done.costs.wall[fault.start_step, 0, ranks]
            dead_s[ranks] = done.start_s[fault.start_step, ranks] + data_s + DEAD_AFTER_S
    return dead_s
