"""Heartbeats of a simulated job: what its hosts' processors would say at any moment."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

import numpy as np

from argus.analytics.window import Floats
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.evals.simulator.groups import WORLD_NAME, shape_of
from argus.evals.simulator.job import Job
from argus.evals.simulator.program import LAUNCH, MEET, NORM, PAUSE, RECV, Span, program_of
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
    recent = end[last] - start[last]
    base_ns = round(job.start_s * 1e9)
    return Status(
        ts_ns=base_ns + round(told_s * 1e9),
        step=step,
        phase=phase if is_open else "",
        phase_since_ns=base_ns + round(since_s * 1e9) if is_open else 0,
        step_since_ns=base_ns + round(float(start[step]) * 1e9),
        step_p50_ns=round(_median(recent) * 1e9) if done else 0,
        groups=_progress(job, times, rank, done=done, told_s=told_s),
    )


def _median(values: Floats) -> float:
    """Of a few values: what np.median does about them takes longer than to sort them."""
    ordered = np.sort(values).tolist()
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def _place(job: Job, rank: int) -> tuple[int, int]:
    """Stage of a rank and its row there."""
    size = job.ranks // job.pp
    return rank // size, rank % size


def _open_phase(job: Job, times: Timeline, rank: int, *, step: int, told_s: float) -> tuple[str, float]:
    """Phase the rank is in, and since when; none before its first and after its optimizer."""
    stage, row = _place(job, rank)
    spans, places = _firsts(job, stage)
    begins = times.entry[stage][step, places, row].tolist()
    ends = [*begins[1:], float(times.end_s[step, rank])]
    for span, begin, end in zip(spans, begins, ends, strict=True):
        if begin <= told_s < end and span.ops[0].kind != PAUSE:
            return span.phase, begin
    return "", 0.0


@lru_cache(maxsize=256)
def _firsts(job: Job, stage: int) -> tuple[tuple[Span, ...], list[int]]:
    """The spans of a stage, and the place of the first operation of each."""
    spans = program_of(job).stages[stage]
    return spans, [0, *accumulate(len(span.ops) for span in spans[:-1])]


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
    """Calls entered and left: all of the steps that are done, and some of the one that is not."""
    stage, row = _place(job, rank)
    found = {}
    for kind, places in _calls(job, stage).items():
        entered = left = done * len(places)
        if done < job.steps:
            entered += int((times.entry[stage][done, places, row] <= told_s).sum())
            left += int((times.end[stage][done, places, row] <= told_s).sum())
        name = WORLD_NAME if kind == "world" else shape_of(job).groups[kind].name_of(rank)
        found[name] = (entered, left)
    return found
