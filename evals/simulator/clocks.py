"""What the hosts' clocks show: offsets, drift and jumps against a perfect one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.evals.simulator.job import Fault, Job


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """`start_ns`, `drift` (rank,) = reading at the job's start, seconds gained per second; `jump_ns` (step, rank)."""

    start_ns: Ints
    drift: Floats
    jump_ns: Ints

    def read(self, seconds: Floats, *, ranks: slice, steps: slice) -> Ints:
        """Readings in nanoseconds of instants (rank, step, …) since the job's start; all finite."""
        more = (1,) * (seconds.ndim - 2)
        drift = self.drift[ranks].reshape(-1, 1, *more)
        base = self.start_ns[ranks].reshape(-1, 1, *more) + self.jump_ns[steps, ranks].T.reshape(
            -1, seconds.shape[1], *more
        )
        return np.asarray(np.rint(seconds * (1e9 * (1 + drift))).astype(np.int64) + base)


def draw_clocks(job: Job, faults: tuple[Fault, ...], *, rng: np.random.Generator) -> Clocks:
    """Ranks of a host share a clock."""
    hosts = np.arange(job.ranks) // job.ranks_per_host
    num = int(hosts.max()) + 1
    skew_s = rng.normal(0, job.clock_offset_s, num)[hosts]
    drift = rng.spawn(1)[0].normal(0, job.clock_drift, num)[hosts]
    jump = np.zeros((job.steps, job.ranks), np.int64)
    for fault in faults:
        if fault.kind == "clock_jump":
            jump[np.ix_(np.arange(job.steps)[fault.steps(job)], np.array(fault.ranks))] += round(
                fault.severity * 1e9
            )
    start = np.rint(skew_s * 1e9).astype(np.int64) + round(job.start_s * 1e9)
    return Clocks(start_ns=start, drift=drift, jump_ns=jump)
