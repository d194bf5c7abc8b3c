"""Recorded kernels of all ranks of a job (Kineto traces) in which kernels of one rank take longer.

The fault is written into the trace files themselves, which are then read by whoever reads such files: Argus by
the same door as any trace, peers by theirs.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from argus.api.offline.files import read_job, windows_of
from argus.collectors.job import Job
from argus.collectors.records.events import RankRecords
from argus.evals.marks import Mark, Spent
from argus.evals.score import Trial
from argus.evals.semi.jobs import CLASS, cost_ratio, judged, stretches, told_at_ends, topology_of, truth_of
from argus.evals.semi.marking import crashed
from argus.evals.semi.retime import Slow, Warp, retimed
from argus.evals.spent import measured
from argus.evals.systems import peers
from argus.evals.systems._seen import Suspicion, opened
from argus.evals.truth import Truth

NAME = "semi_kernels"
ARCHIVE = "kineto/dlrm-8rank-v100.tar.gz"

LATE = (4, 5, 7)
"""Ranks that come last to collectives of the recording as it is, and so may be named."""

HEAVIEST = 3
"""A fault is in one of so many kernels, those that take longest, in all kernels, or in everything the rank does."""

US = 1_000


def recordings(data: Path) -> tuple[Path, ...]:
    """Its file below the data, if it is there."""
    path = data / ARCHIVE
    return (path,) if path.exists() else ()


@cache
def _traces(data: Path) -> dict[int, dict[str, Any]]:
    """The traces by rank."""
    found = {}
    with tarfile.open(data / ARCHIVE) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                trace = json.load(file)
                found[int(trace["distributedInfo"]["rank"])] = trace
    return dict(sorted(found.items()))


@cache
def _job(data: Path) -> Job:
    return read_job([data / ARCHIVE])[0]


def compare(trial: Trial, *, names: Sequence[str], data: Path) -> list[Mark]:
    """The marks of all systems, and of the peers that read traces."""
    job = _job(data)
    rng = np.random.default_rng([trial.seed, 35])
    one = job.records[int(rng.integers(len(job.records)))]
    truth = truth_of(one.layout.rank, onset_step=job.first_step, severity=trial.severity)
    slow = _slow(one, rng, factor=trial.severity)
    records, warps = retimed(job.records, {one.layout.rank: slow} if truth.fault_class else {})
    cost = cost_ratio(job.records, records, onset_step=job.first_step)
    known = [Truth(fault_class="unknown", ranks=(rank,), scope=f"rank:{rank}") for rank in LATE]
    with tempfile.TemporaryDirectory(prefix="argus-") as scratch:
        files = _written(_traces(data), warps, Path(scratch))
        read = read_job(list(files.values()))[0]
        ours = judged(
            trial, truth, read, names=[name for name in names if name not in peers()], known=known, cost=cost
        )
        theirs = [
            _peer(name, trial, truth, files=files, job=read, known=known, cost=cost)
            for name in names
            if name in peers()
        ]
    by_name = {mark.system: mark for mark in (*ours, *theirs)}
    return [by_name[name] for name in names]


def _slow(one: RankRecords, rng: np.random.Generator, *, factor: float) -> Slow:
    """Half of the faults are in kernels alone, which other work may hide; half slow down the whole rank."""
    if rng.random() < 0.5:
        return Slow(start_ns=one.steps["start_ns"], end_ns=one.steps["end_ns"], factor=factor)
    rows, texts = one.kernels, np.array(one.names)
    chosen = texts[rows["role"]] == "compute"
    total = np.bincount(rows["name"][chosen], weights=rows["dur_ns"][chosen].astype(np.float64))
    choice = int(rng.integers(HEAVIEST + 1))
    if choice < HEAVIEST:
        chosen &= rows["name"] == int(np.argsort(-total, kind="stable")[choice])
    return stretches(rows, chosen, factor=factor)


def _written(
    traces: Mapping[int, dict[str, Any]], warps: Mapping[int, Warp], folder: Path
) -> dict[int, Path]:
    """The traces at their new times, one file a rank."""
    files = {}
    for rank, trace in traces.items():
        path = folder / f"rank-{rank}.json"
        moved = {**trace, "traceEvents": _moved(trace["traceEvents"], warps[rank])}
        path.write_text(json.dumps(moved), encoding="utf-8")
        files[rank] = path
    return files


def _moved(events: Sequence[dict[str, Any]], warp: Warp) -> list[dict[str, Any]]:
    timed = [one for one in events if isinstance(one.get("ts"), int | float)]
    start = np.array([float(one["ts"]) for one in timed])
    dur = np.array([float(one.get("dur", 0.0)) for one in timed])
    starts, ends = (warp(np.rint(times * US).astype(np.int64)) for times in (start, start + dur))
    moved = iter(
        {**one, "ts": begin / US, **({"dur": (end - begin) / US} if "dur" in one else {})}
        for one, begin, end in zip(timed, starts.tolist(), ends.tolist(), strict=True)
    )
    return [next(moved) if isinstance(one.get("ts"), int | float) else one for one in events]


def _peer(
    name: str,
    trial: Trial,
    truth: Truth,
    *,
    files: Mapping[int, Path],
    job: Job,
    known: Sequence[Truth],
    cost: float,
) -> Mark:
    """A peer names ranks and nothing else: each is a suspicion of slow compute."""
    windows = windows_of(job, topology_of(job), None)
    try:
        with measured() as meter:
            ranks = peers()[name].accuse_traces(files)
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        return crashed(name, trial, truth, error)
    last = windows[-1]
    incidents = [opened(Suspicion(at=0, fault_class=CLASS, ranks=(rank,)), last) for rank in ranks]
    return told_at_ends(
        name,
        trial,
        truth,
        windows=windows,
        incidents=incidents,
        opened=[last.index] * len(incidents),
        known=known,
        cost=cost,
        spent=Spent(wall_s=meter.wall_s, windows=len(windows)),
    )
