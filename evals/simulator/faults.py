"""What faults do to the costs of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.evals.simulator.costs import Costs
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.kernel_rows import COPIES
from argus.evals.simulator.segments import BACKWARD_SHARE, FORWARD_SHARE, ROLLOUT, segments_of

GC_FAULT_EVERY = 2
"""A bad heap is collected every so many steps."""

CODES = {"": (1, 2), "forward": (1,), "backward": (2,)}
"""Kinds of segments a fault of compute acts on, by its phase."""


def apply_faults(costs: Costs, faults: tuple[Fault, ...], job: Job, *, rng: np.random.Generator) -> None:
    """All faults in their order, in place."""
    for fault in faults:
        if fault.kind in _APPLY:
            for part in fault.parts(job):
                _APPLY[fault.kind](costs, part, job, rng)


def _steps(job: Job, fault: Fault) -> Ints:
    return np.arange(job.steps)[fault.steps(job)]


def _slow_compute(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    parts = segments_of(job)
    share = {"": FORWARD_SHARE + BACKWARD_SHARE, "forward": FORWARD_SHARE, "backward": BACKWARD_SHARE}
    factor = 1 + (fault.severity - 1) / share[fault.phase]
    where = np.flatnonzero(np.isin(parts.kind, CODES[fault.phase]))
    at = np.ix_(_steps(job, fault), where, np.array(fault.ranks))
    if fault.kernels:
        more = costs.wall[at].sum(axis=1) * (factor - 1)
        _in_kernels(costs, fault, job, more)
    costs.wall[at] *= factor
    costs.cpu[at] *= 1.0 if job.gpu else factor


def _starve(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    shares = segments_of(job).shares
    at = np.ix_(_steps(job, fault), np.arange(len(shares)), np.array(fault.ranks))
    lumps = rng.exponential(1.0, costs.wall[at].shape) * shares[None, :, None]
    costs.wall[at] += (fault.severity - 1) * job.step_s * lumps
    stood = costs.starved_s.setdefault(fault.kind, np.zeros((job.steps, job.ranks)))
    stood[np.ix_(_steps(job, fault), np.array(fault.ranks))] += (
        (fault.severity - 1) * job.step_s * lumps.sum(axis=1)
    )


def _slow_data(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    extra = (fault.severity - 1) * job.step_s * rng.lognormal(-0.045, 0.3, costs.wall[:, 0][at].shape)
    costs.wall[:, 0][at] += extra


def _slow_copy(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    extra = (fault.severity - 1) * job.step_s * rng.lognormal(-0.005, 0.1, costs.wall[:, 0][at].shape)
    costs.wall[:, 0][at] += extra
    _in_kernels(costs, replace(fault, kernels=COPIES), job, extra)


def _in_kernels(costs: Costs, fault: Fault, job: Job, seconds: Floats) -> None:
    """Note that so much of the faulty ranks' work lies in some kernels alone; `seconds` (step, rank)."""
    known = costs.kernels_s.setdefault(fault.kernels, np.zeros((job.steps, job.ranks)))
    known[np.ix_(_steps(job, fault), np.array(fault.ranks))] += seconds


def _pause_for_gc(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    every = GC_FAULT_EVERY if fault.every == 1 else 1
    at = np.ix_(_steps(job, fault)[::every], np.array(fault.ranks))
    pause = (fault.severity - 1) * job.step_s * every * rng.lognormal(-0.02, 0.2, costs.gc_s[at].shape)
    costs.gc_s[at] += pause
    costs.wall[:, 1][at] += pause
    costs.cpu[:, 1][at] += pause


def _compile(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    pause = (fault.severity - 1) * job.step_s * rng.lognormal(-0.02, 0.2, costs.compile_s[at].shape)
    segment = int(np.flatnonzero(segments_of(job).kind == 2)[-1])
    costs.compile_s[at] += pause
    costs.wall[:, segment][at] += pause
    costs.cpu[:, segment][at] += pause


def _retry(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    lost = (fault.severity - 1) * job.step_s * rng.lognormal(-0.02, 0.2, costs.retries[at].shape)
    segment = int(np.flatnonzero(segments_of(job).kind == 2)[-1])
    costs.retries[at] += 1 + rng.poisson(1.0, costs.retries[at].shape)
    costs.wall[:, segment][at] += lost
    costs.cpu[:, segment][at] += lost


def _slow_link(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    kind = fault.group or job.grad_kind
    if kind == "pp":
        _slow_pair(costs, fault, job, rng)
        return
    groups = np.unique(shape_of(job).groups[kind].of_rank[list(fault.ranks)])
    transfers = costs.transfers[kind]
    calls = transfers.shape[1]
    at = np.ix_(_steps(job, fault), np.arange(calls), groups)
    extra = (fault.severity - 1) * job.step_s / calls
    transfers[at] += extra * rng.lognormal(-0.005, 0.1, transfers[at].shape)


def _slow_pair(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    """What the earlier of two neighbours sends forward and the later back; all a single rank sends."""
    sent = costs.transfers["pp"]
    extra = (fault.severity - 1) * job.step_s / (2 * job.micro_batches * job.virtual)
    slots = np.arange(sent.shape[1])
    for place, rank in enumerate(sorted(fault.ranks)):
        mine = slots[slots % 2 == place] if len(fault.ranks) > 1 else slots
        at = np.ix_(_steps(job, fault), mine, np.array([rank]))
        sent[at] += extra * rng.lognormal(-0.005, 0.1, sent[at].shape)


def _slow_everything(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    steps = _steps(job, fault)
    costs.wall[steps] *= fault.severity
    costs.cpu[steps] *= 1.0 if job.gpu else fault.severity
    for transfers in costs.transfers.values():
        transfers[steps] *= fault.severity


def _slow_rollout(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    if not job.rollout_ratio:
        raise ValueError("a fault of kind rollout needs a job that generates: rollout_ratio > 0")
    segment = segments_of(job).of(ROLLOUT, 0, 0)[0]
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    extra = (fault.severity - 1) * job.step_s * rng.lognormal(-0.005, 0.1, costs.wall[:, segment][at].shape)
    costs.wall[:, segment][at] += extra


def _slow_save(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    saves = costs.pauses["checkpoint"]
    at = np.ix_(_steps(job, fault), np.array(fault.ranks))
    extra = (fault.severity - 1) * job.step_s * max(job.checkpoint_every, 1)
    saves[at] += np.where(saves[at] > 0, extra * rng.lognormal(-0.005, 0.1, saves[at].shape), 0.0)


def _stop(costs: Costs, fault: Fault, job: Job, rng: np.random.Generator) -> None:
    if fault.start_step < job.steps:
        costs.wall[fault.start_step, 1, list(fault.ranks)] = np.inf


_APPLY: Mapping[str, Callable[[Costs, Fault, Job, np.random.Generator], None]] = {
    "compute": _slow_compute,
    "starved": _starve,
    "throttled": _starve,
    "data": _slow_data,
    "copy": _slow_copy,
    "gc": _pause_for_gc,
    "compile": _compile,
    "alloc": _retry,
    "link": _slow_link,
    "slow_all": _slow_everything,
    "rollout": _slow_rollout,
    "save": _slow_save,
    "hang": _stop,
    "lost": _stop,
}
"""Faults of kind `work` act on the work, `clock_jump` on the clocks and `gap` on the records instead."""
