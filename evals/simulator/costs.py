"""How long each piece of work and each transfer lasts, before anybody waits for anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.window import Floats
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.program import PAUSES, program_of
from argus.evals.simulator.segments import ROLLOUT, segments_of
from argus.evals.simulator.work import Workload, draw_work, work_factor

WARMUP_FACTORS = (4.0, 2.0, 1.3)
"""The first steps compile, allocate and fill caches."""

CPU_SHARE_WALL = 0.97
CPU_SHARE_GPU = 0.35
"""CPU time per second of work: a CPU job computes, a GPU job only launches."""

DATA_CPU_SHARE = 0.2

DAY_S = 86_400.0

COMM_SHARES = {
    "tp": "tp_comm_ratio",
    "cp": "tp_comm_ratio",
    "ep": "ep_comm_ratio",
    "pp": "pp_comm_ratio",
    "edp": "comm_ratio",
}
"""Which of the job's ratios a kind of group takes; the rest takes that of the gradients."""

WORLD_SHARE = 0.001
"""The gradient norm is one number of every rank."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds. `wall`, `cpu` (step, segment, rank), segments as in `Segments`.

    `transfers` by kind of group (step, call, group), for `pp` and `world` (step, call, rank) of the sender;
    `gc_s` (step, rank) is the part of the first forward segment spent in collections, `compile_s` that of the
    last backward segment; `retries` (step, rank) are allocations that had to be tried again; `pauses` (step, rank) by
    name; `kernels_s` (step, rank) is the part of the work that lies in kernels with a word in their name, where not
    all are slower alike; `starved_s` (step, rank) by fault is what a rank stood ready and was not run: in the run
    queue, or throttled. Infinite = never ends. Faults act on them in place.
    """

    wall: Floats
    cpu: Floats
    transfers: Mapping[str, Floats]
    gc_s: Floats
    compile_s: Floats
    retries: Floats
    pauses: Mapping[str, Floats]
    work: Workload
    kernels_s: dict[str, Floats] = field(default_factory=dict)
    starved_s: dict[str, Floats] = field(default_factory=dict)


def draw_costs(job: Job, faults: tuple[Fault, ...], *, rng: np.random.Generator) -> Costs:
    """The costs of a job before faults of cost are applied, with the work its faults ask for."""
    shares = segments_of(job).shares
    wall, cpu = _work_times(job, shares, rng)
    gc_s = _routine_gc(job, rng)
    wall[:, 1] += gc_s
    cpu[:, 1] += gc_s
    transfers = _all_transfers(job, rng)
    checkpoint_s = _checkpoints(job, rng)
    aside = rng.spawn(1)[0]  # what jobs of plain data parallelism lack must not shift their draws
    work = draw_work(job, faults, rng=aside)
    _scale_by_work(job, work, wall, cpu)
    if job.rollout_ratio:
        length = aside.lognormal(-0.5 * job.rollout_spread**2, job.rollout_spread, (job.steps, job.ranks))
        wall[:, segments_of(job).of(ROLLOUT, 0, 0)[0]] *= length
    return Costs(
        wall=wall,
        cpu=cpu,
        transfers=transfers,
        gc_s=gc_s,
        compile_s=np.zeros((job.steps, job.ranks)),
        retries=np.zeros((job.steps, job.ranks)),
        pauses=dict(zip(PAUSES, (_evaluations(job, aside), checkpoint_s), strict=True)),
        work=work,
    )


def _work_times(job: Job, shares: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    shape = (job.steps, len(shares), job.ranks)
    nominal = np.broadcast_to((job.step_s * shares)[None, :, None], shape) * _usual(job)
    jitter = _jitter(job, shape, rng)
    tail = rng.random(shape) < job.noise.tail_probability
    wall = nominal * (jitter + tail * job.noise.tail_ratio * (1 + rng.pareto(2.5, shape)))
    cpu = nominal * jitter**job.noise.work_share * (CPU_SHARE_GPU if job.gpu else CPU_SHARE_WALL)
    cpu[:, 0] *= DATA_CPU_SHARE
    warm = min(job.warmup_steps, len(WARMUP_FACTORS), job.steps)
    for array in (wall, cpu):
        array[:warm] *= np.array(WARMUP_FACTORS[:warm])[:, None, None]
    return wall, cpu


def _usual(job: Job) -> Floats:
    """Work of each rank's stage and of the time of day. (step, 1 or segment, 1 or rank)"""
    usual = np.ones((job.steps, 1, 1))
    if job.noise.daily:
        hours = np.arange(job.steps) * job.step_s / DAY_S
        usual = usual * (1 + job.noise.daily * np.sin(2 * np.pi * hours))[:, None, None]
    if job.stage_work:
        stage = np.repeat(job.stage_work, job.ranks // job.pp)
        is_compute = segments_of(job).kind > 0
        usual = usual * np.where(is_compute[None, :, None], stage[None, None, :], 1.0)
    return usual


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


def _scale_by_work(job: Job, work: Workload, wall: Floats, cpu: Floats) -> None:
    if work.tokens is None and work.routed is None:
        return
    for segment in np.flatnonzero(segments_of(job).kind):
        factor = work_factor(job, work, slice(None), int(segment))
        wall[:, segment] *= factor
        cpu[:, segment] *= 1.0 if job.gpu else factor


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


def _evaluations(job: Job, rng: np.random.Generator) -> Floats:
    cost = np.zeros((job.steps, job.ranks))
    if job.eval_every:
        at = np.arange(job.eval_every, job.steps, job.eval_every)
        cost[at] = job.eval_s * rng.lognormal(0, 0.05, (len(at), job.ranks))
    return cost


def _all_transfers(job: Job, rng: np.random.Generator) -> dict[str, Floats]:
    """Gradients first, then tensor parallelism, then the rest: what jobs have in common is drawn first."""
    shape, calls = shape_of(job), program_of(job).num_calls
    order = [kind for kind in (job.grad_kind, "tp", "cp", "ep", "edp") if kind in shape.groups]
    found = {}
    for kind in order:
        ratio = getattr(job, COMM_SHARES.get(kind, "comm_ratio"))
        num = calls.get(kind, 0)
        found[kind] = _transfers(job, (job.steps, num, len(shape.groups[kind].members)), ratio, rng=rng)
    for kind in ("pp", "world"):
        if kind in calls:
            ratio = WORLD_SHARE if kind == "world" else job.pp_comm_ratio
            found[kind] = _transfers(job, (job.steps, calls[kind], job.ranks), ratio, rng=rng)
    return found


def _transfers(job: Job, shape: tuple[int, int, int], ratio: float, *, rng: np.random.Generator) -> Floats:
    nominal = job.step_s * ratio / max(shape[1], 1)
    return np.asarray(nominal * rng.lognormal(0, job.comm_noise, shape))
