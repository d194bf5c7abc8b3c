"""Process groups of a simulated job, as the runtime would report them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Ints
from argus.collectors.records.layout import GroupInfo, Layout
from argus.evals.simulator.job import Job

WORLD_NAME = "0"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of one kind: `members` (group, position) are ranks, `of_rank` (rank,) the group's number."""

    names: tuple[str, ...]
    desc: str
    members: Ints
    of_rank: Ints


def dp_groups(job: Job) -> Groups:
    """The groups that reduce gradients; without tensor parallelism it is the world."""
    members = np.arange(job.ranks, dtype=np.int64).reshape(-1, job.tp).T
    if job.tp == 1:
        return _groups((WORLD_NAME,), desc="default_pg", members=members)
    first = 1 + job.ranks // job.tp
    return _groups(tuple(str(first + i) for i in range(job.tp)), desc="mesh_dp", members=members)


def tp_groups(job: Job) -> Groups | None:
    """The tensor-parallel groups, None if there are none."""
    if job.tp == 1:
        return None
    members = np.arange(job.ranks, dtype=np.int64).reshape(-1, job.tp)
    return _groups(tuple(str(1 + i) for i in range(len(members))), desc="mesh_tp", members=members)


def layouts(job: Job) -> tuple[Layout, ...]:
    """What each rank says of itself at the start."""
    kinds = [kind for kind in (tp_groups(job), dp_groups(job)) if kind is not None and job.tp > 1]
    world = GroupInfo(name=WORLD_NAME, desc="default_pg", ranks=tuple(range(job.ranks)))
    return tuple(
        Layout(
            run=job.run,
            attempt=job.attempt,
            rank=rank,
            world_size=job.ranks,
            local_rank=rank % job.ranks_per_host,
            host=job.host(rank),
            pid=1000 + rank,
            device=f"GPU-{rank:08x}" if job.gpu else "",
            gpu_model="H100" if job.gpu else "",
            groups=(world, *(_info(kind, rank) for kind in kinds)),
            source="simulator",
        )
        for rank in range(job.ranks)
    )


def _groups(names: tuple[str, ...], *, desc: str, members: Ints) -> Groups:
    of_rank = np.empty(members.size, np.int64)
    of_rank[members] = np.arange(len(members))[:, None]
    return Groups(names=names, desc=desc, members=members, of_rank=of_rank)


def _info(kind: Groups, rank: int) -> GroupInfo:
    number = int(kind.of_rank[rank])
    return GroupInfo(
        name=kind.names[number], desc=kind.desc, ranks=tuple(int(r) for r in kind.members[number])
    )
