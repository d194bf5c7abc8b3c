"""Heartbeats of a simulated job: what its hosts' processors would say at any moment."""

from __future__ import annotations

import numpy as np

from argus.analytics.window import Floats
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.evals.simulator.groups import Groups, dp_groups, tp_groups
from argus.evals.simulator.job import Job
from argus.evals.simulator.timeline import Timeline

STATUS_PERIOD_S = 1.0
OPEN_PHASES = ("data", "forward", "backward", "optimizer")
MEDIAN_STEPS = 20
"""Steps behind a status's own median."""


def beat(job: Job, times: Timeline, rank: int, *, now_s: float, dead_s: float) -> Heartbeat:
    """One rank at `now_s`; `dead_s` is when its process vanished, infinite if it lives. Seconds since start."""
    ended_s = float(times.end[-1, rank])
    gone_s = min(dead_s, ended_s)
    told_s = min(now_s, gone_s)
    state = "running" if now_s < gone_s else "exited" if dead_s < ended_s else "ended"
    status = _status(job, times, rank, told_s=told_s)
    return Heartbeat(
        run=job.run,
        attempt=job.attempt,
        rank=rank,
        host=job.host(rank),
        ts_s=job.start_s + now_s,
        state=state,
        process_state=("R" if status.phase in ("forward", "optimizer") else "S")
        if state == "running"
        else "",
        status_age_s=now_s - told_s + (now_s % STATUS_PERIOD_S if state == "running" else 0.0),
        status=status,
        exit_reason="signal 9" if state == "exited" else "",
    )


def _status(job: Job, times: Timeline, rank: int, *, told_s: float) -> Status:
    start, end = times.start[:, rank], times.end[:, rank]
    done = int(np.searchsorted(end, told_s, side="right"))
    step = min(done, job.steps - 1)
    edges = np.array(
        [start[step], times.data[step, rank], times.forward[step, rank], times.backward[step, rank]]
    )
    at = int(np.searchsorted(edges, told_s, side="right")) - 1
    is_open = done < job.steps and at >= 0 and told_s < times.optimizer[step, rank]
    last = slice(max(0, done - MEDIAN_STEPS), done)
    recent = end[last] - start[last]
    base_ns = round(job.start_s * 1e9)
    return Status(
        ts_ns=base_ns + round(told_s * 1e9),
        step=step,
        phase=OPEN_PHASES[at] if is_open else "",
        phase_since_ns=base_ns + round(float(edges[at]) * 1e9) if is_open else 0,
        step_since_ns=base_ns + round(float(start[step]) * 1e9),
        step_p50_ns=round(float(np.median(recent)) * 1e9) if done else 0,
        groups=_progress(job, times, rank, told_s=told_s),
    )


def _progress(job: Job, times: Timeline, rank: int, *, told_s: float) -> dict[str, tuple[int, int]]:
    found = _counts(
        dp_groups(job), times.dp_entry[:, :, rank], times.dp_end[:, :, rank], rank=rank, told_s=told_s
    )
    tp = tp_groups(job)
    if tp is not None:
        found |= _counts(tp, times.tp_entry[:, :, rank], times.tp_end[:, :, rank], rank=rank, told_s=told_s)
    return found


def _counts(
    groups: Groups, entry: Floats, end: Floats, *, rank: int, told_s: float
) -> dict[str, tuple[int, int]]:
    name = groups.names[int(groups.of_rank[rank])]
    return {name: (int((entry <= told_s).sum()), int((end <= told_s).sum()))}
