"""The operations of a pipeline-parallel job as dense arrays: every node of a step's graph in every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import EXCLUDED_FLAGS, RankRecords
from argus.topology.layout import Topology

FORWARD, BACKWARD = "forward-compute", "backward-compute"
P2P = ("forward-send", "forward-recv", "backward-send", "backward-recv")
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
EMBEDDING, LAYERNORM, CLIP = (
    "embedding-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "optimizer-clip-main-grad",
)
OPTIMIZER, GC = "optimizer", "gc"

TYPES = (FORWARD, BACKWARD, *P2P, GATHER, SCATTER, SEPARATE, EMBEDDING, LAYERNORM, CLIP, OPTIMIZER, GC)
"""Native phase names that the replay knows: Megatron's timers, one a micro-batch."""

COMMUNICATION = (*P2P, GATHER, SCATTER, SEPARATE, EMBEDDING, LAYERNORM, CLIP)
"""Types whose ideal is a median transfer; the rest is compute, whose ideal is a mean."""

MIN_COMPLETE = 0.5
"""Below half of the steps complete, what remains says little about the run."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operation of the step's graph: the `number`-th of its type on a stage."""

    type: str
    stage: int
    number: int
    chunk: int


@dataclass(frozen=True, kw_only=True)
class Operations:
    """`start_s`, `end_s` are (node, step, pipeline), in seconds since the step began.

    `ranks` (pipeline, stage) are global ranks. `data_group` (pipeline, stage) numbers the ranks that hold
    the same part of the model; collectives over them end together. `steps` (step,) as recorded.
    """

    nodes: tuple[Node, ...]
    start_s: Floats
    end_s: Floats
    ranks: Ints
    data_group: Ints
    steps: Ints
    num_left_out: int

    @property
    def num_stages(self) -> int:
        """Depth of the pipeline."""
        return int(self.ranks.shape[1])

    @property
    def recorded_s(self) -> Floats:
        """Step time as recorded: first start to last end over all workers. (step,)"""
        return np.asarray(self.end_s.max(axis=(0, 2)) - self.start_s.min(axis=(0, 2)))


def operations_of(records: Sequence[RankRecords], topology: Topology) -> Operations | None:
    """Operations of the pipelines in `records`; None without per-micro-batch phases of whole pipelines.

    Steps with a flag, or whose operations differ from those of most steps, are left out and counted.
    """
    by_rank = {one.layout.rank: one for one in records}
    lines = _pipelines(topology, by_rank)
    rows = _rows(lines, by_rank) if lines is not None else None
    if lines is None or rows is None or not np.isin(rows[:, 3], (0, 1)).any():
        return None
    made = _dense(rows, lines)
    if made is None:
        return None
    return Operations(
        nodes=made[0],
        start_s=made[1],
        end_s=made[2],
        ranks=lines,
        data_group=_data_groups(topology, lines),
        steps=made[3],
        num_left_out=made[4],
    )


def _pipelines(topology: Topology, by_rank: dict[int, RankRecords]) -> Ints | None:
    """Ranks of every whole pipeline in stage order, (pipeline, stage); each rank is one without any."""
    groups = [g.ranks for g in topology.groups if g.kind == "pp" and set(g.ranks) <= set(by_rank)]
    lines = groups or [(rank,) for rank in sorted(by_rank)]
    covered = {rank for line in lines for rank in line}
    if len({len(line) for line in lines}) != 1 or covered != set(by_rank):
        return None
    return np.array(sorted(lines), np.int64)


def _rows(lines: Ints, by_rank: dict[int, RankRecords]) -> Ints | None:
    """One row an operation: step, pipeline, stage, type, start_ns, end_ns, chunk; sorted by all of them."""
    parts = []
    for (line, stage), rank in np.ndenumerate(lines):
        one = by_rank[int(rank)]
        known = {name: TYPES.index(name) for name in one.names if name in TYPES}
        if not known:
            return None
        type_of = np.array([known.get(name, -1) for name in one.names], np.int64)
        flagged = one.steps["step"][(one.steps["flags"] & EXCLUDED_FLAGS) != 0]
        phases = one.phases[~np.isin(one.phases["step"], flagged)]
        kind = type_of[np.minimum(phases["native"], len(type_of) - 1)]
        phases, kind = phases[kind >= 0], kind[kind >= 0]
        start = phases["start_ns"]
        fixed = np.full(len(kind), line), np.full(len(kind), stage)
        end = start + phases["dur_ns"]
        parts.append(np.stack([phases["step"], *fixed, kind, start, end, phases["chunk"]], axis=1))
    rows = np.concatenate(parts).astype(np.int64)
    return rows[np.lexsort((rows[:, 5], rows[:, 4], rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0]))]


def _dense(rows: Ints, lines: Ints) -> tuple[tuple[Node, ...], Floats, Floats, Ints, int] | None:
    """Nodes, start and end of the steps that hold exactly the nodes most do, those steps, and the rest's number."""
    new = np.append(True, (np.diff(rows[:, :4], axis=0) != 0).any(axis=1))
    index = np.arange(len(rows))
    number = index - np.maximum.accumulate(np.where(new, index, 0))
    keys, node = np.unique(np.stack([rows[:, 2], rows[:, 3], number], axis=1), axis=0, return_inverse=True)
    node = node.reshape(-1)
    steps, step = np.unique(rows[:, 0], return_inverse=True)
    present = np.zeros((len(keys), len(steps), len(lines)), np.bool_)
    present[node, step, rows[:, 1]] = True
    everywhere = present.mean(axis=(1, 2)) > MIN_COMPLETE
    good = (present == everywhere[:, None, None]).all(axis=(0, 2))
    if not everywhere.any() or good.mean() < MIN_COMPLETE:
        return None
    start, end = np.zeros(present.shape), np.zeros(present.shape)
    begin = np.full(len(steps), np.iinfo(np.int64).max)
    np.minimum.at(begin, step, rows[:, 4])
    start[node, step, rows[:, 1]] = (rows[:, 4] - begin[step]) * 1e-9
    end[node, step, rows[:, 1]] = (rows[:, 5] - begin[step]) * 1e-9
    chunk = np.full(len(keys), -1)
    chunk[node[::-1]] = rows[::-1, 6]
    nodes = tuple(
        Node(type=TYPES[t], stage=int(s), number=int(n), chunk=int(c))
        for (s, t, n), c in zip(keys[everywhere].tolist(), chunk[everywhere].tolist(), strict=True)
    )
    return nodes, start[everywhere][:, good], end[everywhere][:, good], steps[good], int((~good).sum())


def _data_groups(topology: Topology, lines: Ints) -> Ints:
    """Number of the data-parallel group of each worker; all replicas of a stage are one without groups."""
    number = np.tile(np.arange(lines.shape[1]), (lines.shape[0], 1))
    kind = next((k for k in ("dp_cp", "dp") if any(g.kind == k for g in topology.groups)), "")
    groups = [g for g in topology.groups if g.kind == kind]
    for at, group in enumerate(groups):
        number[np.isin(lines, group.ranks)] = lines.shape[1] + at
    return np.asarray(number, np.int64)
