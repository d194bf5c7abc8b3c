"""What the hosts' kernels count while a simulated job runs: the run queue, throttling, pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.collectors.host.use_track import HOST_RATES, RANK_RATES, READ_S
from argus.collectors.records.host_look import HostLook
from argus.evals.simulator.clocks import Clocks
from argus.evals.simulator.costs import CPU_SHARE_GPU, CPU_SHARE_WALL, Costs
from argus.evals.simulator.job import Job

JITTER_SHARE = 0.3
"""Of a job's natural jitter that a rank's busiest thread spends in the run queue, per second."""

PRESSURE_GPU, PRESSURE_CPU = 0.02, 0.1
"""Share of the time in which some task of a healthy host waits for a CPU: loaders do, ranks hardly."""

BURST_S = 60.0
BURST_PROBABILITY = 0.03
BURST_RATIO = 0.4
"""Cron jobs and log rotation: a minute of pressure on one host, of which its ranks feel a twentieth."""

FELT = 0.05
THREADS = 3.0
"""Threads of a rank that wait as its main one does: the sum over all is so many times that of the worst."""


@dataclass(frozen=True, kw_only=True)
class HostUse:
    """The counters as functions of time; `start_s`, `end_s` (step, rank) since the job's start.

    Draws of its own, the same for jobs of one size: what a job's faults and noise draw must not shift.
    """

    job: Job
    costs: Costs
    start_s: Floats
    end_s: Floats

    def rates(self, ranks: Ints, *, first: Ints, last: Ints) -> list[dict[str, float]]:
        """What a window says of each of `ranks` (rank,) over its steps `first` … `last` (rank,), by name."""
        low: Floats = np.floor(self.start_s[first, ranks] / READ_S) * READ_S
        high: Floats = np.ceil(self.end_s[last, ranks] / READ_S) * READ_S
        span, before, after = high - low, self.counters(ranks, low), self.counters(ranks, high)
        names = {**RANK_RATES, **HOST_RATES}
        grown = {names[name]: (after[name] - before[name]) / span for name in after}
        return [{name: float(rate[i]) for name, rate in grown.items()} for i in range(len(ranks))]

    def looks(self, rank: int, clocks: Clocks) -> tuple[HostLook, ...]:
        """What the host of `rank` read of it, on its own clock."""
        ended = self.end_s[np.isfinite(self.end_s[:, rank]), rank]
        num = int(ended[-1] / READ_S) + 2 if len(ended) else 0
        moments: Floats = np.arange(num, dtype=np.float64) * READ_S
        ranks = np.full(len(moments), rank)
        counts = self.counters(ranks, moments)
        step = np.minimum(np.searchsorted(ended, moments, "right"), self.job.steps - 1)
        clock_ns = clocks.start_ns[rank] + clocks.jump_ns[step, rank]
        clock_s = clock_ns * 1e-9 + moments * (1 + clocks.drift[rank])
        return tuple(_look(counts, i, ts_s=float(clock_s[i]), pid=rank + 1) for i in range(len(moments)))

    def counters(self, ranks: Ints, at_s: Floats) -> dict[str, Floats]:
        """Every counter of each of `ranks` (rank,) and its host at `at_s` (rank,); names of `use_track`."""
        starved, throttled = (self._until(at_s, ranks, lumps=lumps) for lumps in self._lumps)
        burst = self._bursts(ranks, at_s)
        delay = self._delay[ranks] * at_s + starved + FELT * burst
        job, cpu_share = self.job, CPU_SHARE_GPU if self.job.gpu else CPU_SHARE_WALL
        pressure = PRESSURE_GPU if job.gpu else PRESSURE_CPU
        return {
            "cpu_s": cpu_share * at_s,
            "run_delay_s": THREADS * delay,
            "thread_run_delay_s": delay,
            "throttled_s": throttled,
            "major_faults": np.zeros(len(ranks)),
            "cpu_some_s": pressure * at_s + burst + starved,
            "memory_full_s": np.zeros(len(ranks)),
            "io_full_s": np.zeros(len(ranks)),
            "cpu_steal_s": np.zeros(len(ranks)),
        }

    @cached_property
    def _lumps(self) -> tuple[Floats | None, Floats | None]:
        return self.costs.starved_s.get("starved"), self.costs.starved_s.get("throttled")

    @cached_property
    def _delay(self) -> Floats:
        """Each rank's habitual share of time in the run queue. (rank,)"""
        rng = np.random.default_rng([self.job.ranks, 7])
        return np.asarray(JITTER_SHARE * self.job.noise.rank * rng.lognormal(-0.1, 0.4, self.job.ranks))

    def _until(self, at_s: Floats, ranks: Ints, *, lumps: Floats | None) -> Floats:
        """How much of what fell on each step (step, rank) had passed at a time, evenly within a step."""
        if lumps is None:
            return np.zeros(len(ranks))
        end = self.end_s[:, ranks]
        step = (end <= at_s).sum(axis=0)
        open_step = np.minimum(step, self.job.steps - 1)
        column = np.arange(len(ranks))
        start, finish = self.start_s[open_step, ranks], end[open_step, column]
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.clip((at_s - start) / (finish - start), 0.0, 1.0)
        part = np.where(np.isfinite(part) & (step < self.job.steps), part, 0.0)
        done = np.concatenate([np.zeros((1, len(ranks))), np.cumsum(lumps[:, ranks], axis=0)])
        return np.asarray(done[step, column] + part * lumps[open_step, ranks])

    def _bursts(self, ranks: Ints, at_s: Floats) -> Floats:
        """Seconds of pressure that others made on each rank's host. (rank,)"""
        host, minute = ranks // self.job.ranks_per_host, (at_s // BURST_S).astype(np.int64)
        sums = self._burst_sums
        minute = np.minimum(minute, len(sums) - 2)
        within = (at_s - minute * BURST_S) / BURST_S
        return np.asarray(sums[minute, host] + within * (sums[minute + 1, host] - sums[minute, host]))

    @cached_property
    def _burst_sums(self) -> Floats:
        """Pressure of all minutes before. (minute, host)"""
        rng = np.random.default_rng([self.job.ranks, 11])
        ended = self.end_s[np.isfinite(self.end_s)]
        minutes = int((ended.max() if len(ended) else 0.0) / BURST_S) + 2
        hosts = (self.job.ranks - 1) // self.job.ranks_per_host + 1
        bursts = rng.random((minutes, hosts)) < BURST_PROBABILITY
        seconds = bursts * BURST_RATIO * BURST_S * rng.random((minutes, hosts))
        return np.concatenate([np.zeros((1, hosts)), np.cumsum(seconds, axis=0)])


def _look(counts: Mapping[str, Floats], place: int, *, ts_s: float, pid: int) -> HostLook:
    now = {name: float(values[place]) for name, values in counts.items()}
    others = (now["run_delay_s"] - now["thread_run_delay_s"]) / (THREADS - 1)
    return HostLook(
        ts_s=ts_s,
        pid=pid,
        host={name: now[name] for name in HOST_RATES},
        whole={name: now[name] for name in ("cpu_s", "throttled_s", "major_faults")},
        run_delay_s={pid: now["thread_run_delay_s"], pid + 1: others, pid + 2: others},
    )
