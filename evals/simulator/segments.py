"""The pieces of own work in a step: their numbers, their shares, what kind of work each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from argus.analytics.window import Bools, Floats, Ints
from argus.evals.simulator.job import Job
from argus.evals.simulator.schedules import BACKWARD, FORWARD, WEIGHTS

DATA_SHARE, FORWARD_SHARE, BACKWARD_SHARE, OPTIMIZER_SHARE = 0.02, 0.32, 0.6, 0.06
"""Shares of a step's work, of the order seen in transformer training."""

FORWARD_SEGMENTS = 2
"""Parts of a forward, so that a tensor-parallel call can lie between them."""

ROLLOUT, REWARD = "rollout", "reward"
REWARD_SHARE = 0.1
"""Scoring what was generated, as a share of generating it."""


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Segments by number: 0 = data, the last = optimizer; all arrays (segment,).

    `kind` is 0 for neither, 1 for forward, 2 for backward; `micro_batch` −1 where there is none.
    """

    shares: Floats
    kind: Ints
    is_expert: Bools
    micro_batch: Ints
    numbers: Mapping[tuple[str, int, int], tuple[int, ...]]
    pp: int
    virtual: int

    @property
    def optimizer(self) -> int:
        """Number of the optimizer's segment."""
        return len(self.shares) - 1

    def of(self, kind: str, micro_batch: int, chunk: int) -> tuple[int, ...]:
        """Segments of one micro-batch in one chunk and direction."""
        return self.numbers[kind, micro_batch, chunk]

    def transfer(self, kind: str, micro_batch: int, chunk: int, stage: int) -> int:
        """Number of what a stage sends on after that piece."""
        return self.transfer_from(kind, micro_batch, chunk * self.pp + stage)

    def transfer_from(self, kind: str, micro_batch: int, place: int) -> int:
        """Number of what the `place`-th chunk of the whole model sends on."""
        places = self.pp * self.virtual
        return (micro_batch * places + place) * 2 + (kind == BACKWARD)


@lru_cache(maxsize=32)
def segments_of(job: Job) -> Segments:
    """The segments of a step of `job`."""
    split = job.schedule == "zero_bubble"
    pieces = job.micro_batches * job.virtual
    has_experts = job.ep > 1
    forward = FORWARD_SEGMENTS if has_experts or not job.is_pipeline else 1
    backward = (2 if has_experts else 1) if job.is_pipeline else job.buckets
    kinds = [(FORWARD, forward, FORWARD_SHARE), (BACKWARD, backward, BACKWARD_SHARE)]
    if split:
        kinds = [
            kinds[0],
            (BACKWARD, backward, BACKWARD_SHARE / 2),
            (WEIGHTS, backward, BACKWARD_SHARE / 2),
        ]
    rows: list[tuple[float, int, bool, int]] = [(DATA_SHARE, 0, False, -1)]
    numbers: dict[tuple[str, int, int], tuple[int, ...]] = {}
    for kind, parts, share in kinds:
        for micro_batch in range(job.micro_batches):
            for chunk in range(job.virtual):
                first = len(rows)
                numbers[kind, micro_batch, chunk] = tuple(range(first, first + parts))
                code = 1 if kind == FORWARD else 2
                rows += [
                    (share / parts / pieces, code, has_experts and part % 2 == 1, micro_batch)
                    for part in range(parts)
                ]
    for kind, share in ((ROLLOUT, 1.0), (REWARD, REWARD_SHARE)) if job.rollout_ratio else ():
        numbers[kind, 0, 0] = (len(rows),)
        rows.append((job.rollout_ratio * share, 0, False, -1))
    rows.append((OPTIMIZER_SHARE, 0, False, -1))
    shares, codes, expert, batch = zip(*rows, strict=True)
    return Segments(
        shares=np.array(shares),
        kind=np.array(codes),
        is_expert=np.array(expert),
        micro_batch=np.array(batch),
        numbers=numbers,
        pp=job.pp,
        virtual=job.virtual,
    )
