"""The generator: a job, its faults and a random generator in, every rank's records out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats
from argus.collectors.records.events import RankRecords
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.layout import Layout
from argus.evals.simulator.beats import beat
from argus.evals.simulator.costs import draw_costs
from argus.evals.simulator.emit import Source, clock_offsets, rank_records, string_table
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.timeline import Timeline, run_timeline

DEAD_AFTER_S = 0.05
"""A lost rank's process vanishes so long after its last forward began."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A job that has run. `records` holds the ranks that report, `dead_s` (rank,) when a process vanished.

    `timeline` and `dead_s` are in seconds since the job's start, on a perfect clock.
    """

    job: Job
    layouts: tuple[Layout, ...]
    records: tuple[RankRecords, ...]
    timeline: Timeline
    dead_s: Floats

    def beats(self, now_s: float) -> tuple[Heartbeat, ...]:
        """Heartbeats of the ranks that report at Unix time `now_s`."""
        since_s = now_s - self.job.start_s
        return tuple(
            beat(self.job, self.timeline, layout.rank, now_s=since_s, dead_s=float(self.dead_s[layout.rank]))
            for layout in self.layouts
        )

    @property
    def last_end_s(self) -> float:
        """Unix time of the last thing that ended on any rank."""
        end = self.timeline.end
        ended = end[np.isfinite(end)]
        return self.job.start_s + (float(ended.max()) if len(ended) else 0.0)


def simulate(job: Job, faults: Sequence[Fault] = (), *, rng: np.random.Generator) -> Simulation:
    """Run `job` with all `faults` on it.

    >>> rng = np.random.default_rng(1)
    >>> done = simulate(Job(ranks=4, steps=20), [Fault(kind="compute", ranks=(2,))], rng=rng)
    >>> len(done.records), len(done.records[2].steps)
    (4, 20)
    """
    costs = draw_costs(job, tuple(faults), rng=rng)
    times = run_timeline(job, costs)
    offsets, names = clock_offsets(job, rng), string_table(job)
    lost = rng.random((job.steps, job.ranks)) < job.lost_step_probability
    seen = tuple(layout for layout in layouts(job) if layout.rank not in job.missing)
    records = tuple(
        rank_records(
            Source(
                job=job,
                costs=costs,
                times=times,
                names=names,
                rank=who.rank,
                offset_ns=int(offsets[who.rank]),
            ),
            who,
            lost=lost[:, who.rank],
        )
        for who in seen
    )
    return Simulation(
        job=job, layouts=seen, records=records, timeline=times, dead_s=_deaths(job, faults, times)
    )


def _deaths(job: Job, faults: Sequence[Fault], times: Timeline) -> Floats:
    dead_s = np.full(job.ranks, np.inf)
    for fault in faults:
        if fault.kind == "lost" and fault.start_step < job.steps:
            ranks = list(fault.ranks)
            dead_s[ranks] = times.data[fault.start_step, ranks] + DEAD_AFTER_S
    return dead_s
