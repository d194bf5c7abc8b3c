"""How much each rank has to do: sequence lengths of its micro-batches, tokens routed to its experts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.segments import segments_of

TOKENS = 8192.0
"""Tokens of a micro-batch of usual length."""

MAX_LENGTH = 3.0
"""The context window: no sequence is longer than so many usual ones."""

ATTENTION_SHARE = 0.3
"""Part of the compute that grows with the square of the sequence length."""

ROUTING_STEPS = 40
"""An expert stays hot for about so many steps."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Work relative to the usual one, mean 1. `tokens`, `squares` (step, micro-batch, replica); `routed`
    (step, rank) = tokens that the rank's experts get. None where every step has the same work."""

    tokens: Floats | None
    squares: Floats | None
    routed: Floats | None


def draw_work(job: Job, faults: tuple[Fault, ...], *, rng: np.random.Generator) -> Workload:
    """The work of all steps, with the faults that change work in it."""
    uneven = [part for one in faults if one.kind in ("work", "lengths", "routing") for part in one.parts(job)]
    routing = [fault for fault in uneven if fault.kind == "routing" or fault.group == "ep"]
    lengths = [fault for fault in uneven if fault not in routing]
    tokens = _lengths(job, lengths, rng) if job.length_spread or lengths else None
    routed = _routed(job, routing, rng) if job.ep > 1 and (job.routing_spread or routing) else None
    return Workload(tokens=tokens, squares=None if tokens is None else tokens**2, routed=routed)


def _steps(job: Job, fault: Fault) -> Ints:
    return np.arange(job.steps)[fault.steps(job)]


def _lengths(job: Job, faults: list[Fault], rng: np.random.Generator) -> Floats:
    replica = shape_of(job).replica
    shape = (job.steps, job.micro_batches, int(replica.max()) + 1)
    tokens = _spread(rng, job.length_spread, shape)
    for fault in faults:
        steps = _steps(job, fault)
        if fault.kind == "lengths":
            tokens[steps] *= _spread(rng, fault.severity - 1, (len(steps), *shape[1:]))
        else:
            mine = np.unique(replica[np.array(fault.ranks)])
            tokens[np.ix_(steps, np.arange(shape[1]), mine)] *= fault.severity
    return np.minimum(tokens, MAX_LENGTH)


def _routed(job: Job, faults: list[Fault], rng: np.random.Generator) -> Floats:
    """Shares of an expert group's tokens, mean 1 over the group. (step, rank)"""
    routed = _routing(job, rng)
    for fault in faults:
        steps = _steps(job, fault)
        if fault.kind == "routing":
            routed[steps] *= _spread(rng, fault.severity - 1, (len(steps), job.ranks))
        else:
            routed[np.ix_(steps, np.array(fault.ranks))] *= fault.severity
    groups = shape_of(job).groups["ep"]
    return np.asarray(routed / routed[:, groups.members].mean(axis=2)[:, groups.of_rank])


def _spread(rng: np.random.Generator, sigma: float, shape: tuple[int, ...]) -> Floats:
    """Log-normal with mean 1."""
    return rng.lognormal(-0.5 * sigma**2, sigma, shape)


def _routing(job: Job, rng: np.random.Generator) -> Floats:
    """Log-normal shares: half of the spread wanders, half is of the step alone. (step, rank)"""
    keep = np.exp(-1.0 / ROUTING_STEPS)
    kicks = rng.normal(0, job.routing_spread * np.sqrt(0.5), (job.steps, job.ranks))
    kicks[1:] *= np.sqrt(1 - keep**2)
    for step in range(1, job.steps):
        kicks[step] += keep * kicks[step - 1]
    fresh = rng.normal(0, job.routing_spread * np.sqrt(0.5), kicks.shape)
    return np.asarray(np.exp(kicks + fresh))


def work_factor(job: Job, work: Workload, steps: slice, segment: int) -> Floats | float:
    """How much longer the work makes a segment than usual. (step, rank)"""
    parts = segments_of(job)
    if not parts.kind[segment]:
        return 1.0
    factor: Floats | float = 1.0
    if work.tokens is not None and work.squares is not None:
        replica = shape_of(job).replica
        batch = int(parts.micro_batch[segment])
        linear, square = work.tokens[steps, batch][:, replica], work.squares[steps, batch][:, replica]
        factor = (1 - ATTENTION_SHARE) * linear + ATTENTION_SHARE * square
        if parts.is_expert[segment]:
            factor = linear
    if work.routed is not None and parts.is_expert[segment]:
        factor = factor * work.routed[steps]
    return factor


def told_work(job: Job, work: Workload, steps: slice) -> dict[str, Floats]:
    """What the ranks report of each step, by unit. (step, rank)"""
    if not job.tells_work:
        return {}
    replica = shape_of(job).replica
    num = len(range(*steps.indices(job.steps)))
    tokens = np.full((num, job.ranks), float(job.micro_batches))
    squares = tokens.copy()
    if work.tokens is not None and work.squares is not None:
        tokens = work.tokens[steps].sum(axis=1)[:, replica]
        squares = work.squares[steps].sum(axis=1)[:, replica]
    told = {"tokens": tokens * TOKENS, "sum_len2": squares * TOKENS**2}
    if job.ep > 1:
        told["expert_tokens"] = tokens * TOKENS * (1.0 if work.routed is None else work.routed[steps])
    return told
