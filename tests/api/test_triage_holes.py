"""Steps nobody recorded, ranks and calls that are not there: what triage compares, and what it does not clear."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import main
from argus.api.cli.face import recorded
from argus.api.offline.files import analyse
from argus.api.report import Report
from argus.collectors.job import join
from argus.collectors.readers import Reading
from argus.collectors.readers._fake import STEP_US
from argus.collectors.records.events import DTYPES, RankRecords
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from tests.api.test_triage import traces, triage

CYCLES = frozenset({*range(3), *range(6, 9), *range(12, 15)})
"""Steps of a profile that records three steps and passes over three."""


def in_cycles(folder: Path, *, kept: Collection[int] = CYCLES) -> Path:
    """The traces without the steps that were not kept."""
    for path in folder.glob("*.json"):
        trace = json.loads(path.read_text())
        events = trace["traceEvents"]
        trace["traceEvents"] = [e for e in events if int(e["ts"] // (2 * STEP_US)) in kept]
        path.write_text(json.dumps(trace))
    return folder


def cut_after(path: Path, num_steps: int, *, calls: bool = False) -> None:
    """The trace ends after some steps; only its collectives do with `calls`."""
    trace = json.loads(path.read_text())
    trace["traceEvents"] = [
        e
        for e in trace["traceEvents"]
        if e["ts"] < num_steps * 2 * STEP_US or (calls and "nccl" not in e["name"])
    ]
    path.write_text(json.dumps(trace))


def simulated(*, without: Mapping[int, Collection[int]], kind: str = "") -> Report:
    """The verdict on a job of 16 ranks whose rank 2 is slow from step 50 on, some steps of some ranks left out."""
    job = Job(ranks=16, tp=2, steps=100, gpu=False, step_s=0.1)
    faults = [Fault(kind=kind, ranks=(2,), start_step=50, severity=1.6)] if kind else []
    records = simulate(job, faults, rng=np.random.default_rng(5)).records
    left = [_left(one, without.get(one.layout.rank, ())) for one in records]
    return analyse(join([Reading(records=one, source="x") for one in left]), now_s=0.0)


def _left(records: RankRecords, gone: Collection[int]) -> RankRecords:
    steps = np.array(sorted(gone), np.int64)
    rows = {kind: getattr(records, kind) for kind in DTYPES}
    return replace(records, **{kind: part[~np.isin(part["step"], steps)] for kind, part in rows.items()})


def test_the_steps_of_a_profile_in_cycles_are_those_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = in_cycles(traces(tmp_path / "job", {5: 4_000}, num_steps=15))
    assert main(["triage", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(" 8 of 8 ranks · 9 steps · 18 collectives compared")
    _, report, _ = triage(capsys, folder)
    assert [(i["suspects"], i["onset_step"]) for i in report["incidents"]] == [([5], 3)]


def test_tools_count_the_steps_as_triage_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_cycles(traces(tmp_path / "job", {5: 4_000}, num_steps=15))
    assert main(["tools", "call", "step_series", "--recording", str(folder)]) == 0
    answer = json.loads(capsys.readouterr().out)
    _, report, _ = triage(capsys, folder)
    last = max(finding["end_step"] for finding in report["findings"])
    assert answer["as_of"]["step"] == last == 17, "nine steps from 3 on would end with step 11"
    job = recorded([folder]).facts.run("job")
    assert job is not None
    (window,) = job.windows(limit=9)
    assert (window.first_step, window.num_steps, window.last_step) == (3, len(CYCLES), last)


@pytest.mark.slow
def test_steps_between_the_cycles_hide_nobody() -> None:
    passed_over = [step for step in range(100) if step < 60 or step % 6 > 2]
    report = simulated(without=dict.fromkeys(range(16), passed_over), kind="starved")
    assert [incident.cause.suspects for incident in report.incidents] == [(2,)]
    assert simulated(without=dict.fromkeys(range(16), passed_over)).diagnosis["verdict"] == "NO_FAULT"


def test_equal_ranks_in_cycles_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_cycles(traces(tmp_path / "job", {}, num_steps=15))
    _, report, _ = triage(capsys, folder)
    assert report["incidents"] == [] and report["diagnosis"]["verdict"] == "NO_FAULT"


@pytest.mark.slow
def test_a_fault_behind_a_hole_begins_at_the_ranks_own_step() -> None:
    hole = range(20, 40)
    report = simulated(without=dict.fromkeys(range(16), hole), kind="starved")
    assert report.job.num_steps == 80
    (incident,) = report.incidents
    assert incident.cause.suspects == (2,) and 48 <= incident.onset_step <= 60
    assert set(incident.cause.findings) <= {finding.id for finding in report.findings}
    assert not set(hole) & {finding.start_step for finding in report.findings}


def test_ranks_that_were_never_seen_together_are_not_cleared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = traces(tmp_path / "job", {}, num_steps=12)
    for rank in range(5):
        cut_after(folder / f"rank{rank}.json", 8)
    _, report, _ = triage(capsys, folder)
    assert report["incidents"] == [] and report["diagnosis"]["verdict"] == "INCONCLUSIVE"
    assert "0 of 12" in report["diagnosis"]["headline"]


def test_a_missing_rank_is_not_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {3: 4_000}, num_steps=12)
    (folder / "rank3.json").unlink()
    _, report, _ = triage(capsys, folder)
    assert report["incidents"] == [] and report["diagnosis"]["verdict"] == "INCONCLUSIVE"
    assert "7 of 8 ranks" in report["diagnosis"]["headline"]


@pytest.mark.slow
def test_a_rank_seen_in_a_part_of_the_steps_is_not_cleared() -> None:
    report = simulated(without={3: range(40, 100)})
    assert report.incidents == () and report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert "rank 3 " in report.diagnosis["headline"]


@pytest.mark.slow
def test_a_few_lost_steps_of_one_rank_leave_a_healthy_job_healthy() -> None:
    assert simulated(without={3: range(90, 100)}).diagnosis["verdict"] == "NO_FAULT"


def test_calls_that_were_not_compared_clear_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = traces(tmp_path / "job", {}, num_steps=12)
    cut_after(folder / "rank3.json", 4, calls=True)
    _, report, _ = triage(capsys, folder)
    assert report["incidents"] == [] and report["diagnosis"]["verdict"] == "INCONCLUSIVE"
    assert "8 of 24 collectives" in report["diagnosis"]["headline"]
