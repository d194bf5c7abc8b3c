"""How long each piece of work and each transfer lasts, before anybody waits for anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.evals.simulator.groups import dp_groups, tp_groups
from argus.evals.simulator.job import Fault, Job

FORWARD_SEGMENTS = 2
DATA_SHARE, FORWARD_SHARE, BACKWARD_SHARE, OPTIMIZER_SHARE = 0.02, 0.32, 0.6, 0.06
"""Shares of a step's work, of the order seen in transformer training."""

WARMUP_FACTORS = (4.0, 2.0, 1.3)
"""The first steps compile, allocate and fill caches."""

CPU_SHARE_WALL = 0.97
CPU_SHARE_GPU = 0.35
"""CPU time per second of work: a CPU job computes, a GPU job only launches."""

DATA_CPU_SHARE = 0.2
GC_FAULT_EVERY = 2
"""A bad heap is collected every so many steps."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds. `wall`, `cpu` (step, segment, rank): data, forward, one per bucket of backward, optimizer.

    `transfer_dp` (step, bucket, group), `transfer_tp` (step, call, group); `gc_s` (step, rank) is the part
    of the first forward segment spent in collections; infinite = never ends. Faults act on them in place.
    """

    wall: Floats
    cpu: Floats
    transfer_dp: Floats
    transfer_tp: Floats
    gc_s: Floats
    checkpoint_s: Floats

    @property
    def num_segments(self) -> int:
        """Segments of a step."""
        return int(self.wall.shape[1])

    @property
    def compute(self) -> slice:
        """The forward and backward segments."""
        return slice(1, self.num_segments - 1)


def draw_costs(job: Job, faults: tuple[Fault, ...], *, rng: np.random.Generator) -> Costs:
    """The healthy costs of a job with the faults applied in order."""
    costs = _healthy(job, rng)
    for fault in faults:
        _APPLY[fault.kind](costs, fault, job, rng)
    return costs


def segment_shares(job: Job) -> Floats:
    """Share of the step's work per segment. (segment,)"""
    forward = [FORWARD_SHARE / FORWARD_SEGMENTS] * FORWARD_SEGMENTS
    backward = [BACKWARD_SHARE / job.buckets] * job.buckets
    return np.array([DATA_SHARE, *forward, *backward, OPTIMIZER_SHARE])


def _healthy(job: Job, rng: np.random.Generator) -> Costs:
    shares = segment_shares(job)
    shape = (job.steps, len(shares), job.ranks)
    nominal = np.broadcast_to((job.step_s * shares)[None, :, None], shape)
    jitter = _jitter(job, shape, rng)
    tail = rng.random(shape) < job.noise.tail_probability
    wall = nominal * (jitter + tail * job.noise.tail_ratio * (1 + rng.pareto(2.5, shape)))
    cpu = nominal * jitter**job.noise.work_share * (CPU_SHARE_GPU if job.gpu else CPU_SHARE_WALL)
    cpu[:, 0] *= DATA_CPU_SHARE
    warm = min(job.warmup_steps, len(WARMUP_FACTORS), job.steps)
    for array in (wall, cpu):
        array[:warm] *= np.array(WARMUP_FACTORS[:warm])[:, None, None]
    gc_s = _routine_gc(job, rng)
    wall[:, 1] += gc_s
    cpu[:, 1] += gc_s
    dp, tp = dp_groups(job), tp_groups(job)
    calls = len(shares) - 2
    return Costs(
        wall=wall,
        cpu=cpu,
        transfer_dp=_transfers(job, (job.steps, job.buckets, len(dp.members)), job.comm_ratio, rng=rng),
        transfer_tp=_transfers(
            job, (job.steps, calls, len(tp.members) if tp else 0), job.tp_comm_ratio, rng=rng
        ),
        gc_s=gc_s,
        checkpoint_s=_checkpoints(job, rng),
    )


def _jitter(job: Job, shape: tuple[int, int, int], rng: np.random.Generator) -> Floats:
    noise = job.noise
    common = rng.normal(0, noise.common, (job.steps, 1, 1))
    spread = rng.normal(0, noise.spread, (1, 1, job.ranks))
    drift = _wander(job, rng)[:, None, :]
    return np.asarray(np.exp(common + spread + drift + rng.normal(0, noise.rank, shape)))


def _wander(job: Job, rng: np.random.Generator) -> Floats:
    """A stationary first-order autoregression per rank. (step, rank)"""
    keep = np.exp(-1.0 / job.noise.drift_steps)
    kicks = rng.normal(0, job.noise.drift, (job.steps, job.ranks))
    kicks[1:] *= np.sqrt(1 - keep**2)
    for step in range(1, job.steps):
        kicks[step] += keep * kicks[step - 1]
    return kicks


def _routine_gc(job: Job, rng: np.random.Generator) -> Floats:
    if not job.gc_every:
        return np.zeros((job.steps, job.ranks))
    hit = rng.random((job.steps, job.ranks)) < 1.0 / job.gc_every
    return np.asarray(hit * job.gc_pause_s * rng.lognormal(0, 0.3, hit.shape))


def _checkpoints(job: Job, rng: np.random.Generator) -> Floats:
    cost = np.zeros((job.steps, job.ranks))
    if job.checkpoint_every:
        at = np.arange(job.checkpoint_every, job.steps, job.checkpoint_every)
        cost[at] = job.checkpoint_s * rng.lognormal(0, 0.1, (len(at), job.ranks))
    return cost


def _transfers(job: Job, shape: tuple[int, int, int], ratio: float, *, rng: np.random.Generator) -> Floats:
    nominal = job.step_s * ratio / shape[1]
    return np.asarray(nominal * rng.lognormal(0, job.comm_noise, shape))


def _steps(job: Job, fault: Fault) -> Ints:
    return np.arange(job.steps)[fault.steps(job)]


def _slow_compute(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    factor = 1 + (fault.severity - 1) / (FORWARD_SHARE + BACKWARD_SHARE)
    at = np.ix_(_steps(job, fault), np.arange(costs.num_segments)[costs.compute], np.array(fault.ranks))
    costs.wall[at] *= factor
    costs.cpu[at] *= 1.0 if job.gpu else factor


def _starve(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.arange(costs.num_segments), np.array(fault.ranks))
    lumps = rng.exponential(1.0, costs.wall[at].shape) * segment_shares(job)[None, :, None]
    costs.wall[at] += (fault.severity - 1) * job.step_s * lumps


def _slow_data(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    extra = (fault.severity - 1) * job.step_s * rng.lognormal(-0.045, 0.3, costs.wall[:, 0][at].shape)
    costs.wall[:, 0][at] += extra


def _pause_for_gc(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault)[::GC_FAULT_EVERY], np.array(fault.ranks))
    pause = (
        (fault.severity - 1) * job.step_s * GC_FAULT_EVERY * rng.lognormal(-0.02, 0.2, costs.gc_s[at].shape)
    )
    costs.gc_s[at] += pause
    costs.wall[:, 1][at] += pause
    costs.cpu[:, 1][at] += pause


def _slow_link(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    groups = np.unique(dp_groups(job).of_rank[list(fault.ranks)])
    at = np.ix_(_steps(job, fault), np.arange(job.buckets), groups)
    extra = (fault.severity - 1) * job.step_s / job.buckets
    costs.transfer_dp[at] += extra * rng.lognormal(-0.005, 0.1, costs.transfer_dp[at].shape)


def _stop(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    costs.wall[fault.start_step, 1, list(fault.ranks)] = np.inf


_APPLY: Mapping[str, Callable[[Costs, Fault, Job, np.random.Generator], None]] = {
    "compute": _slow_compute,
    "starved": _starve,
    "data": _slow_data,
    "gc": _pause_for_gc,
    "link": _slow_link,
    "hang": _stop,
    "lost": _stop,
}
