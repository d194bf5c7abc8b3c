"""Process groups of a simulated job, as the runtime would report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from argus.analytics.window import Ints
from argus.collectors.records.layout import GroupInfo, Layout
from argus.evals.simulator.job import Job
from argus.topology.megatron import megatron

WORLD_NAME = "0"

KINDS = ("tp", "cp", "dp", "dp_cp", "pp", "ep", "edp")
"""Order in which a job creates its groups, which numbers them."""

GPU_MODEL = "H100"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of one kind: `members` (group, position) are ranks, `of_rank` (rank,) the group's number."""

    names: tuple[str, ...]
    desc: str
    members: Ints
    of_rank: Ints

    def name_of(self, rank: int) -> str:
        """What the runtime calls the rank's group."""
        return self.names[int(self.of_rank[rank])]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Who is grouped with whom. `stages` holds the first rank and one past the last of each stage.

    `replica` (rank,) numbers the data-parallel replica, whose ranks work on the same samples.
    """

    groups: Mapping[str, Groups]
    stages: tuple[tuple[int, int], ...]
    replica: Ints


@lru_cache(maxsize=32)
def shape_of(job: Job) -> Shape:
    """Groups of more than one rank by kind; gradients reduced over all ranks need no group but the world."""
    ranks = np.arange(job.ranks, dtype=np.int64)
    parallel = megatron(job.ranks, tp=job.tp, pp=job.pp, cp=job.cp, ep=job.ep, etp=1 if job.ep > 1 else 0)
    found: dict[str, Groups] = {}
    number = 1
    for kind in KINDS:
        if kind not in parallel.kinds or (kind == "dp_cp" and job.cp == 1):
            continue
        members = np.asarray(parallel.members(kind), np.int64)
        if members.shape[1] == 1:
            continue
        if members.shape[1] == job.ranks and kind == job.grad_kind:
            found[kind] = _groups((WORLD_NAME,), desc="default_pg", members=members)
            continue
        names = tuple(str(number + i) for i in range(len(members)))
        found[kind] = _groups(names, desc=f"mesh_{kind}", members=members)
        number += len(members)
    dims, rows = parallel.coords()
    size = job.ranks // job.pp
    return Shape(
        groups=found,
        stages=tuple((stage * size, (stage + 1) * size) for stage in range(job.pp)),
        replica=np.array(rows, np.int64)[:, dims.index("dp")] if "dp" in dims else ranks,
    )


def layouts(job: Job) -> tuple[Layout, ...]:
    """What each rank says of itself at the start."""
    kinds = [groups for groups in shape_of(job).groups.values() if groups.names != (WORLD_NAME,)]
    world = GroupInfo(name=WORLD_NAME, desc="default_pg", ranks=tuple(range(job.ranks)))
    infos = [
        [
            GroupInfo(name=name, desc=groups.desc, ranks=tuple(row))
            for name, row in zip(groups.names, groups.members.tolist(), strict=True)
        ]
        for groups in kinds
    ]
    return tuple(
        Layout(
            run=job.run,
            attempt=job.attempt,
            rank=rank,
            world_size=job.ranks,
            local_rank=rank % job.ranks_per_host,
            host=job.told_host(rank),
            pid=1000 + rank,
            device=f"GPU-{rank:08x}" if job.gpu else "",
            gpu_model=GPU_MODEL if job.gpu else "",
            groups=(
                world,
                *(row[int(g.of_rank[rank])] for row, g in zip(infos, kinds, strict=True)),
            ),
            source="simulator",
            env=dict(job.env),
        )
        for rank in range(job.ranks)
    )


def _groups(names: tuple[str, ...], *, desc: str, members: Ints) -> Groups:
    of_rank = np.empty(members.size, np.int64)
    of_rank[members] = np.arange(len(members))[:, None]
    return Groups(names=names, desc=desc, members=members, of_rank=of_rank)
