"""When everything happens: work follows work on a rank, a collective waits for its last member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.window import Floats
from argus.evals.simulator.costs import FORWARD_SEGMENTS, Costs
from argus.evals.simulator.groups import Groups, dp_groups, tp_groups
from argus.evals.simulator.job import Job


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Seconds since the job's start; infinite = never reached.

    (step, rank): `start`, `data`, `forward`, `ready` (last bucket launched), `backward`, `optimizer`, `end`
    are the ends of those stretches. `dp_entry`, `dp_end` (step, bucket, rank); `tp_entry`, `tp_end`
    (step, call, rank), no calls without tensor parallelism.
    """

    start: Floats
    data: Floats
    forward: Floats
    ready: Floats
    backward: Floats
    optimizer: Floats
    end: Floats
    dp_entry: Floats
    dp_end: Floats
    tp_entry: Floats
    tp_end: Floats


def elapsed(start: Floats, end: Floats) -> Floats:
    """Seconds between two instants, infinite if the later one is never reached. Any shape."""
    spent = np.full(end.shape, np.inf)
    np.subtract(end, start, where=np.isfinite(end), out=spent)
    return spent


def run_timeline(job: Job, costs: Costs) -> Timeline:
    """Play all steps; step k + 1 of a rank starts when its step k ended."""
    dp, tp = dp_groups(job), tp_groups(job)
    calls = costs.num_segments - 2 if tp else 0
    marks = np.empty((7, job.steps, job.ranks))
    times = Timeline(
        **dict(
            zip(("start", "data", "forward", "ready", "backward", "optimizer", "end"), marks, strict=True)
        ),
        dp_entry=np.empty((job.steps, job.buckets, job.ranks)),
        dp_end=np.empty((job.steps, job.buckets, job.ranks)),
        tp_entry=np.empty((job.steps, calls, job.ranks)),
        tp_end=np.empty((job.steps, calls, job.ranks)),
    )
    now = np.zeros(job.ranks)
    for step in range(job.steps):
        now = _play_step(times, costs, step, now=now, dp=dp, tp=tp)
    return times


def _play_step(
    times: Timeline, costs: Costs, step: int, *, now: Floats, dp: Groups, tp: Groups | None
) -> Floats:
    wall = costs.wall[step]
    times.start[step] = now
    now = times.data[step] = now + wall[0]
    bucket_end = np.zeros(len(now))
    for call in range(len(wall) - 2):
        now = now + wall[1 + call]
        if tp is not None:
            times.tp_entry[step, call] = now
            now = times.tp_end[step, call] = _meet(now, tp, costs.transfer_tp[step, call])
        bucket = call - FORWARD_SEGMENTS
        if bucket == -1:
            times.forward[step] = now
        elif bucket >= 0:
            # Buckets of a group go over the wire one after the other.
            times.dp_entry[step, bucket] = now
            start = np.maximum(now, bucket_end)
            bucket_end = times.dp_end[step, bucket] = _meet(start, dp, costs.transfer_dp[step, bucket])
    times.ready[step] = now
    now = times.backward[step] = np.maximum(now, bucket_end)
    now = times.optimizer[step] = now + wall[-1]
    if costs.checkpoint_s[step].any():
        # A checkpoint ends with a barrier of the world.
        now = np.full_like(now, (now + costs.checkpoint_s[step]).max())
    times.end[step] = now
    return now


def _meet(entry: Floats, groups: Groups, transfer: Floats) -> Floats:
    """Common end of one call per group: last entry plus transfer. (rank,)"""
    end = np.empty_like(entry)
    end[groups.members] = (entry[groups.members].max(axis=1) + transfer)[:, None]
    return end
