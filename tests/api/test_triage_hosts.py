"""A recording is triaged with what its hosts saw: counters confirm or contradict, stacks say what the host did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli.face import recorded
from argus.api.offline.files import samples_of, stacks_of, triage_files
from argus.api.report import Report
from argus.collectors.records.events import RankRecords
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.stacks import StackDump, Thread
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

JOB = Job(ranks=8, ranks_per_host=2, steps=120, step_s=0.5, gpu=False)
SLOW = 3


def recordings(folder: Path, *, kind: str, seen: bool = True) -> list[RankRecords]:
    """The recordings of a job in which one rank is slow, with or without what its host saw."""
    fault = Fault(kind=kind, ranks=(SLOW,), start_step=60, severity=1.5)
    records = [
        one if seen else replace(one, looks=())
        for one in simulate(JOB, (fault,), rng=np.random.default_rng(1)).records
    ]
    for one in records:
        write(folder, one)
    return records


def write(folder: Path, records: RankRecords) -> None:
    (folder / f"rank-{records.layout.rank}.argus").write_bytes(b"".join(rank_frames(records)))


def triaged(folder: Path) -> Report:
    report = triage_files([folder], now_s=0.0)
    assert isinstance(report, Report)
    return report


@pytest.mark.parametrize(
    ("kind", "counter"), [("starved", "thread_run_delay_ratio"), ("throttled", "throttled_ratio")]
)
def test_the_hosts_counters_confirm_starvation(tmp_path: Path, kind: str, counter: str) -> None:
    recordings(tmp_path, kind=kind)
    [incident] = triaged(tmp_path).incidents
    assert (incident.cause.fault_class, incident.cause.suspects) == ("host.cpu_starved", (SLOW,))
    assert incident.cause.verdict == "CONFIRMED"
    found = {item.name: item for item in incident.cause.evidence}
    assert found[counter].value > 0.2 > (found[counter].baseline or 0.0)


def test_without_them_the_same_rank_is_named_and_no_counter(tmp_path: Path) -> None:
    recordings(tmp_path, kind="starved", seen=False)
    report = triaged(tmp_path)
    [incident] = report.incidents
    assert incident.cause.suspects == (SLOW,)
    assert "thread_run_delay_ratio" not in {item.name for item in incident.cause.evidence}
    assert all(not window.use for window in report.windows)


def test_stacks_and_samples_of_a_recording_reach_the_triage_and_the_tools(tmp_path: Path) -> None:
    records = recordings(tmp_path, kind="data")
    threads = (Thread(kind="main", state="S", stack="train (t.py:1);__next__ (dataloader.py:700)"),)
    for one in records:
        rank, host = one.layout.rank, one.layout.host
        dumps = [
            StackDump(
                run=JOB.run, attempt=0, rank=rank, host=host, ts_s=float(step), step=step, threads=threads
            )
            for step in range(60, 110, 5 if rank == SLOW else 50)
        ]
        sample = HostSample(host=host, start_s=1.0, end_s=2.0, numbers={"cpu_some_s": 0.1})
        looks = (*one.looks[:-1], replace(one.looks[-1], sample=sample))
        write(tmp_path, replace(one, stacks=tuple(dumps), looks=looks))
    report = triaged(tmp_path)
    stacks = stacks_of(report.job)
    assert len(stacks) == 10 + 7 and [d.ts_s for d in stacks] == sorted(d.ts_s for d in stacks)
    assert set(samples_of(report.job)) == {JOB.host(rank) for rank in range(8)}
    [incident] = report.incidents
    assert incident.cause.fault_class == "data.slow_loader" and incident.cause.suspects == (SLOW,)
    [held] = recorded([tmp_path]).facts.held  # type: ignore[attr-defined]
    assert len(held.stacks(ranks=[SLOW], limit=4)) == 4 and held.samples([JOB.host(SLOW)])
