"""Profiles of a small sharded job, of which one rank computes slower or stands once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from argus.api.offline.files import triage_files
from argus.api.report import Report

RANKS, LAYERS, LAYER_US, START_US = 4, 3, 10_000.0, 1_700_000_000_000_000.0
RATIO = 1.1
SCATTER_US = 4500.0

Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Rank 0 stands for `dur_us` before its first call of the step in place `at`; `name` = what its trace calls that."""

    at: int
    dur_us: float
    name: str = ""


NO_PAUSE = Pause(at=-1, dur_us=0.0)


def sharded(rank: int, *, slow: float, steps: int, seed: int, pause: Pause = NO_PAUSE) -> Iterator[Event]:
    """Kineto events of a rank: per layer a gather, a matrix product and a scatter that ends when the slowest is through."""
    rng, at, number = random.Random(100 * seed + rank), START_US, count(1)

    def call(op: str, issue: float, start: float, end: float) -> Iterator[Event]:
        group = {
            "Process Group Name": "1",
            "Process Group Ranks": str(list(range(RANKS))),
            "Group size": RANKS,
        }
        args = {"Collective name": op, "In msg nelems": 5_000_000, "dtype": "BFloat16", **group}
        yield event("cpu_op", "record_param_comms", issue, 50, rank, args)
        yield from device(
            rank, next(number), f"ncclDevKernel_{op}_RING_LL", issue + 5, start, end - start, 17, **args
        )

    for step in range(steps):
        begin, now, issue = at, at + 500, at + 100
        yield event("cpu_op", "autograd::engine::evaluate_function: Mm", issue, 3000, rank + RANKS)
        stands_us = pause.dur_us if step == pause.at else 0.0
        if stands_us and pause.name and rank == 0:
            yield event("user_annotation", pause.name, now, stands_us - 100, rank)
        for layer in range(LAYERS):
            enter = now
            if stands_us and layer == 0:
                now += stands_us
                enter, issue = (now, issue + stands_us) if rank == 0 else (enter, issue)
            yield from call("_allgather_base", issue, enter, now + 1500)
            work_us = LAYER_US * slow * rng.gauss(1, 0.01)
            yield event("cpu_op", "aten::mm", issue + 100, 60, rank)
            yield from device(rank, next(number), "nvjet_gemm", issue + 105, now + 1500, work_us, 7)
            done = now + 1500 + LAYER_US * RATIO
            yield from call("_reduce_scatter_base", issue + 200, now + 1500 + work_us, done + SCATTER_US)
            now, issue = done + SCATTER_US, issue + 300
        yield event("user_annotation", "Optimizer.step#AdamW.step", issue, 500, rank)
        yield from device(rank, next(number), "adam_multi_tensor", issue + 5, now, 200, 7)
        issue += 600
        yield event("cuda_runtime", "cudaDeviceSynchronize", issue, now - issue, rank)
        yield event("user_annotation", f"ProfilerStep#{step + 2}", begin, now + 300 - begin, rank)
        at = now + 350


def device(
    rank: int, number: int, name: str, issue: float, start: float, dur: float, stream: int, **args: Any
) -> Iterator[Event]:
    """A kernel and its launch."""
    known = {"correlation": number}
    yield event("cuda_runtime", "cudaLaunchKernel", issue, 8, rank, known)
    yield event("kernel", name, start, dur, stream, {"device": rank, "stream": stream, **known, **args})


def event(kind: str, name: str, ts: float, dur: float, tid: int, args: Event | None = None) -> Event:
    found = {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
    return {**found, "args": args or {}}


def report_of(
    folder: Path, *, slow: float, steps: int = 30, seed: int = 0, pause: Pause = NO_PAUSE
) -> Report:
    """The verdict on traces of which rank 1 computes `slow` times as long as the others."""
    groups = [{"pg_name": "1", "pg_desc": "mesh_fsdp", "pg_size": RANKS, "ranks": list(range(RANKS))}]
    for rank in range(RANKS):
        info = {"backend": "nccl", "rank": rank, "world_size": RANKS, "pg_config": groups}
        events = [*sharded(rank, slow=slow if rank == 1 else 1.0, steps=steps, seed=seed, pause=pause)]
        body = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps(body), encoding="utf-8")
    report = triage_files([folder], now_s=0.0)
    assert isinstance(report, Report)
    return report
