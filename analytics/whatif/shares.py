"""What a job loses to the spread of its operations, and to which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from argus.analytics.whatif.graph import Graph, graph_of
from argus.analytics.whatif.operations import COMMUNICATION, Operations, operations_of
from argus.analytics.whatif.replay import Timeline, ideal_s, replay, work_s
from argus.analytics.window import Bools, Floats, Ints
from argus.collectors.records.events import RankRecords
from argus.topology.layout import Topology

TOP_WORKERS = 0.03
"""Share of the workers that may explain a slowdown as theirs, at least one."""

MAX_WORKERS = 256
"""Workers replayed one by one; of a larger job those whose compute is slowest against their stage."""

MAX_ERROR = 0.05
"""A replay further off the recorded step times than this is no ground to reckon with."""


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The answer in numbers. Shares are of the loss, T_sim − T_ideal; `gains_s` by rank the seconds that each of the
    replayed `steps` (step,) would gain if it were healthy, `worth_s` their mean.

    `sim_error_median` compares replayed with recorded step times, launch delays left out.
    """

    sim_error_median: float
    sim_s: float
    ideal_s: float
    worker_share: float
    stage_share: float
    by_op: Mapping[str, float]
    by_rank: Mapping[int, float]
    by_stage: Mapping[int, float]
    workers: tuple[int, ...]
    steps: Ints
    gains_s: Mapping[int, Floats]
    gpu_hours_per_day: float
    num_steps: int
    num_left_out: int

    @property
    def slowdown(self) -> float:
        """Mean replayed step time over the ideal one."""
        return self.sim_s / self.ideal_s

    @property
    def worth_s(self) -> dict[int, float]:
        """Seconds a step the job would gain if a rank were healthy, by rank."""
        return {rank: max(float(gains.mean()), 0.0) for rank, gains in self.gains_s.items()}

    def worth_in(self, first_step: int, end_step: int) -> dict[int, float]:
        """The same of the steps from `first_step` until before `end_step`; of all where none of them was replayed."""
        here = (self.steps >= first_step) & (self.steps < end_step)
        if not here.any():
            return self.worth_s
        return {rank: max(float(gains[here].mean()), 0.0) for rank, gains in self.gains_s.items()}

    @property
    def is_close(self) -> bool:
        """Whether the replay is near enough to what was recorded to be reckoned with."""
        return self.sim_error_median <= MAX_ERROR

    def to_json(self) -> dict[str, Any]:
        """The `what_if` object of a report."""
        return {
            "sim_error_median": self.sim_error_median,
            "slowdown": self.slowdown,
            "worker_share": self.worker_share,
            "stage_share": self.stage_share,
            "by_op": dict(self.by_op),
            "by_rank": {str(rank): share for rank, share in self.by_rank.items()},
            "by_stage": {str(stage): share for stage, share in self.by_stage.items()},
            "gpu_hours_per_day": self.gpu_hours_per_day,
            "workers": list(self.workers),
            "step_s": self.sim_s,
            "ideal_step_s": self.ideal_s,
            "num_steps": self.num_steps,
            "num_left_out": self.num_left_out,
        }


class Replayer:
    """A job's operations with their graph, replayed on demand."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.graph: Graph = graph_of(operations)
        self.took_s = work_s(self.graph, operations)
        self.ideal_s = ideal_s(operations, self.took_s)

    @cached_property
    def recorded(self) -> Timeline:
        """With the durations as they were."""
        return replay(self.graph, self.operations, self.took_s)

    @cached_property
    def ideal(self) -> Timeline:
        """With every operation at its ideal."""
        return replay(self.graph, self.operations, self.ideal_s)

    def without(self, chosen: Bools) -> float:
        """Mean step time with the chosen operations at their ideal; broadcasts to (node, step, pipeline)."""
        dur = np.where(chosen, self.ideal_s, self.took_s)
        return float(replay(self.graph, self.operations, dur).step_s.mean())

    def only(self, chosen: Bools) -> float:
        """Mean step time with all but the chosen operations at their ideal."""
        dur = np.where(chosen, self.took_s, self.ideal_s)
        return float(replay(self.graph, self.operations, dur).step_s.mean())

    def healthy(self, ranks: Sequence[int]) -> Floats:
        """Step times if these ranks took what the others of their stage take for the same operation. (step,)"""
        ops = self.operations
        dur = self.took_s.copy()
        for stage in range(ops.num_stages):
            sick = np.isin(ops.ranks[:, stage], ranks)
            if not sick.any() or sick.all():
                continue
            nodes = np.array([n.stage == stage and n.type not in COMMUNICATION for n in ops.nodes])
            peers = np.median(self.took_s[nodes][:, :, ~sick], axis=2, keepdims=True)
            mine = dur[nodes]
            mine[:, :, sick] = np.minimum(mine[:, :, sick], peers)
            dur[nodes] = mine
        return replay(self.graph, ops, dur).step_s


def what_if(replayer: Replayer, *, world_size: int) -> WhatIf:
    """Slowdown, and the share of the worst workers, the last stage, each type, stage and rank in it."""
    ops = replayer.operations
    sim, ideal = float(replayer.recorded.step_s.mean()), float(replayer.ideal.step_s.mean())
    loss = sim - ideal

    def share(chosen: Bools) -> float:
        return (sim - replayer.without(chosen)) / loss if loss > 1e-9 * sim else 0.0

    masks = _Masks(ops)
    workers = _worst_workers(replayer, masks)
    looked_at = _looked_at(replayer)
    recorded = ops.recorded_s
    gains = {rank: replayer.recorded.step_s - replayer.healthy([rank]) for rank in looked_at}
    last = ops.num_stages - 1
    return WhatIf(
        sim_error_median=float(np.median(np.abs(replayer.recorded.step_s / recorded - 1))),
        sim_s=sim,
        ideal_s=ideal,
        worker_share=share(masks.ranks(workers)),
        stage_share=share(masks.stage(last)) if last else 0.0,
        by_op=_largest_first({kind: share(masks.type(kind)) for kind in masks.types}),
        by_rank=_largest_first({rank: share(masks.ranks([rank])) for rank in looked_at}),
        by_stage={stage: share(masks.stage(stage)) for stage in range(ops.num_stages)},
        workers=tuple(workers),
        steps=ops.steps,
        gains_s=gains,
        gpu_hours_per_day=max(loss, 0.0) / sim * world_size * 24 if sim > 0 else 0.0,
        num_steps=len(ops.steps),
        num_left_out=ops.num_left_out,
    )


def replayer_of(records: Sequence[RankRecords], topology: Topology) -> Replayer | None:
    """The replay of a job's records, None without pipeline records. Raises NotReplayable."""
    operations = operations_of(records, topology)
    return None if operations is None else Replayer(operations)


class _Masks:
    """Sets of operations as arrays that broadcast to (node, step, pipeline)."""

    def __init__(self, operations: Operations) -> None:
        self._ranks = operations.ranks
        self._stage = np.array([node.stage for node in operations.nodes])
        self._type = np.array([node.type for node in operations.nodes])
        self.types = tuple(dict.fromkeys(self._type.tolist()))

    def type(self, kind: str) -> Bools:
        return np.asarray(self._type == kind)[:, None, None]

    def stage(self, stage: int) -> Bools:
        return np.asarray(self._stage == stage)[:, None, None]

    def pipeline(self, index: int) -> Bools:
        return np.asarray(np.arange(len(self._ranks)) == index)[None, None, :]

    def ranks(self, ranks: Sequence[int]) -> Bools:
        return np.asarray(np.isin(self._ranks, ranks).T[self._stage])[:, None, :]


def _worst_workers(replayer: Replayer, masks: _Masks) -> list[int]:
    """The top share of workers by min(slowdown of its replica, slowdown of its stage)."""
    ranks = replayer.operations.ranks
    by_line = np.array([replayer.only(masks.pipeline(line)) for line in range(ranks.shape[0])])
    by_stage = np.array([replayer.only(masks.stage(stage)) for stage in range(ranks.shape[1])])
    score = np.minimum(by_line[:, None], by_stage[None, :])
    order = np.lexsort((ranks.ravel(), -score.ravel()))
    count = -(-ranks.size * TOP_WORKERS // 1)
    return [int(rank) for rank in ranks.ravel()[order[: max(int(count), 1)]]]


def _looked_at(replayer: Replayer) -> list[int]:
    """Ranks replayed one by one, those with the slowest compute against their stage if there are many."""
    ops = replayer.operations
    if ops.ranks.size <= MAX_WORKERS:
        return sorted(ops.ranks.ravel().tolist())
    excess = np.zeros(ops.ranks.shape)
    for stage in range(ops.num_stages):
        nodes = np.array([n.stage == stage and n.type not in COMMUNICATION for n in ops.nodes])
        mine: Floats = replayer.took_s[nodes].sum(axis=0).mean(axis=0)
        excess[:, stage] = mine - np.median(mine)
    order = np.argsort(-excess.ravel(), kind="stable")[:MAX_WORKERS]
    return sorted(ops.ranks.ravel()[order].tolist())


def _largest_first(shares: Mapping[Any, float]) -> dict[Any, float]:
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
