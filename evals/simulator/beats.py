"""Heartbeats of a simulated job: what its hosts' processors would say at any moment."""

from __future__ import annotations

from functools import lru_cache
from statistics import median

import numpy as np

from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.evals.simulator.groups import WORLD_NAME, shape_of
from argus.evals.simulator.job import Job
from argus.evals.simulator.program import LAUNCH, MEET, NORM, PAUSE, RECV, program_of
from argus.evals.simulator.timeline import Timeline

STATUS_PERIOD_S = 1.0
MEDIAN_STEPS = 20
"""Steps behind a status's own median."""


def beat(job: Job, times: Timeline, rank: int, *, now_s: float, dead_s: float) -> Heartbeat:
    """One rank at `now_s`; `dead_s` is when its process vanished, infinite if it lives. Seconds since start."""
    ended_s = float(times.end_s[-1, rank])
    gone_s = min(dead_s, ended_s)
    told_s = min(now_s, gone_s)
    state = "running" if now_s < gone_s else "exited" if dead_s < ended_s else "ended"
    status = _status(job, times, rank, told_s=told_s)
    return Heartbeat(
        run=job.run,
        attempt=job.attempt,
        rank=rank,
        host=job.told_host(rank),
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
    start, end = times.start_s[:, rank], times.end_s[:, rank]
    done = int(np.searchsorted(end, told_s, side="right"))
    step = min(done, job.steps - 1)
    phase, since_s = _open_phase(job, times, rank, step=step, told_s=told_s)
    is_open = done < job.steps and bool(phase)
    last = slice(max(0, done - MEDIAN_STEPS), done)
    recent = (end[last] - start[last]).tolist()
    base_ns = round(job.start_s * 1e9)
    return Status(
        ts_ns=base_ns + round(told_s * 1e9),
        step=step,
        phase=phase if is_open else "",
        phase_since_ns=base_ns + round(since_s * 1e9) if is_open else 0,
        step_since_ns=base_ns + round(float(start[step]) * 1e9),
        step_p50_ns=round(median(recent) * 1e9) if done else 0,
        groups=_progress(job, times, rank, done=done, told_s=told_s),
    )


def _place(job: Job, rank: int) -> tuple[int, int]:
    """Stage of a rank and its row there."""
    size = job.ranks // job.pp
    return rank // size, rank % size


def _open_phase(job: Job, times: Timeline, rank: int, *, step: int, told_s: float) -> tuple[str, float]:
    """Phase the rank is in, and since when; none before its first and after its optimizer."""
    stage, row = _place(job, rank)
    spans = _spans(job, stage)
    begins = times.entry[stage][step, [place for _, _, place in spans], row].tolist()
    ends = [*begins[1:], float(times.end_s[step, rank])]
    for (phase, is_pause, _), begin, end in zip(spans, begins, ends, strict=True):
        if begin <= told_s < end and not is_pause:
            return phase, begin
    return "", 0.0


@lru_cache(maxsize=256)
def _spans(job: Job, stage: int) -> list[tuple[str, bool, int]]:
    """Phases of a stage: name, whether all pause in it, place of its first operation."""
    found, place = [], 0
    for span in program_of(job).stages[stage]:
        found.append((span.phase, span.ops[0].kind == PAUSE, place))
        place += len(span.ops)
    return found


@lru_cache(maxsize=256)
def _calls(job: Job, stage: int) -> dict[str, list[int]]:
    """Operations of a stage that count as calls of each kind of group."""
    found: dict[str, list[int]] = {}
    for place, op in enumerate(program_of(job).ops(stage)):
        if op.kind in (MEET, LAUNCH, NORM, RECV):
            found.setdefault(op.group, []).append(place)
    return found


def _progress(
    job: Job, times: Timeline, rank: int, *, done: int, told_s: float
) -> dict[str, tuple[int, int]]:
    """Calls entered and ended by group: all those of the steps that are done, some of the one that is open."""
    stage, row = _place(job, rank)
    groups, found = shape_of(job).groups, {}
    entry = times.entry[stage][done : done + 1, :, row] <= told_s
    end = times.end[stage][done : done + 1, :, row] <= told_s
    for kind, places in _calls(job, stage).items():
        name = WORLD_NAME if kind == "world" else groups[kind].name_of(rank)
        before = done * len(places)
        found[name] = (before + int(entry[:, places].sum()), before + int(end[:, places].sum()))
    return found
