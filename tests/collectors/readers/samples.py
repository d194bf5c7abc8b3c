"""A small sound file for each reader: the laws of the folder cut, compress and damage them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from argus.collectors.readers._fake import fake_trace
from argus.collectors.readers._fake_dump import fake_dump
from argus.collectors.readers._fake_inspector import fake_inspector
from argus.collectors.readers._fake_logs import (
    dcgm_scrape,
    folded_stacks,
    nccl_lines,
    timer_tables,
    watchdog_lines,
)
from argus.collectors.readers._fake_nsight import fake_report
from argus.collectors.readers._fake_timers import FakeJob, fake_rows, write_table
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate


def _written(make: Callable[[Path], object], name: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        make(path)
        return path.read_bytes()


def _recording() -> bytes:
    return b"".join(rank_frames(simulate(Job(ranks=2, steps=12), rng=np.random.default_rng(0)).records[0]))


def _dump() -> bytes:
    groups = {"0": ("default_pg", range(4))}
    return json.dumps(fake_dump(groups=groups, counts={"0": (7, 6)})).encode()


def speedscope() -> bytes:
    """Two threads, as py-spy writes them."""
    frames = [
        {"name": name, "file": "train.py", "line": n} for n, name in enumerate(("main", "step", "load"))
    ]
    profiles = [
        {"type": "sampled", "name": 'Process 7 Thread 9 "MainThread"', "samples": [[0, 1], [0, 1], [0, 2]]},
        {"type": "sampled", "name": 'Process 7 Thread 10 "pt_autograd_0"', "samples": [[1]]},
    ]
    whole = [{**one, "weights": [0.01] * len(one["samples"]), "unit": "seconds"} for one in profiles]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "profiles": whole, "shared": {"frames": frames}}).encode()


_MAKERS: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "flight_recorder": ("nccl_trace_rank_0.json", _dump),
    "kineto": (
        "rank0.pt.trace.json",
        lambda: json.dumps(fake_trace(rank=0, world_size=2, num_steps=4)).encode(),
    ),
    "nccl_inspector": ("h-0-pid1000.log", lambda: fake_inspector(rank=0, world_size=2).encode()),
    "nccl_log": ("job.log", lambda: (nccl_lines() + watchdog_lines({3: 1}, world=4)).encode()),
    "nsight": ("report-rank-0.sqlite", lambda: _written(fake_report, "report-rank-0.sqlite")),
    "phase_timers": (
        "trace-x.parquet",
        lambda: _written(lambda path: write_table(path, fake_rows(FakeJob(steps=1))), "x.parquet"),
    ),
    "prometheus_text": ("dcgm.prom", lambda: dcgm_scrape(slow=(2,)).encode()),
    "py_spy": ("stacks-rank-0.txt", lambda: folded_stacks().encode()),
    "recording": ("rank-0.argus", _recording),
    "speedscope": ("stacks-rank-0.json", speedscope),
    "step_series": ("run.json", lambda: json.dumps({"interval": 1, "values": [1.0] * 40}).encode()),
    "training_log": ("train.log", lambda: timer_tables({"forward-compute": [10.0, 11.0]}).encode()),
}


@cache
def sample(reader: str) -> tuple[str, bytes]:
    """Name and content of the reader's file; KeyError for a reader without one."""
    name, make = _MAKERS[reader]
    return name, make()
