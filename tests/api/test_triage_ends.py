"""How the ranks' recordings end belongs into the verdict: a job that failed is not one without a fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.agent.card import render
from argus.api.offline.files import triage_files
from argus.api.report import Report
from argus.collectors.host.recorder import END_NOTE
from argus.collectors.records.events import RankRecords
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.heartbeat import Status
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

STEPS = 40


@pytest.fixture
def records() -> tuple[RankRecords, ...]:
    """Four healthy ranks."""
    return simulate(Job(ranks=4, steps=STEPS, gpu=False, step_s=0.1), rng=np.random.default_rng(5)).records


def upto(one: RankRecords, step: int) -> RankRecords:
    """The rank's records without those of `step` and after it."""
    return replace(
        one, **{kind: rows[rows["step"] < step] for kind in KINDS if len(rows := getattr(one, kind))}
    )


KINDS = ("steps", "phases", "collectives", "events")


def with_long_last_call(one: RankRecords) -> RankRecords:
    """The rank's last call ends a second late, as one does that a peer's death ended."""
    calls = one.collectives.copy()
    calls["end_ns"][np.argmax(calls["entry_ns"])] += 1_000_000_000
    return replace(one, collectives=calls)


def without_last_step(one: RankRecords) -> RankRecords:
    """The last step is begun, not done."""
    return replace(one, steps=one.steps[one.steps["step"] < one.steps["step"].max()])


def verdict(
    folder: Path,
    records: tuple[RankRecords, ...],
    *,
    byes: tuple[int, ...] = (),
    statuses: dict[int, Status] | None = None,
    cut: int = 0,
    full: tuple[int, ...] = (),
) -> Report:
    """Triage of the recordings, of which the last `cut` bytes of each are missing."""
    for one in records:
        rank = one.layout.rank
        raw = b"".join(rank_frames(one, bye=False))
        if statuses and rank in statuses:
            raw += encode_json(Kind.STATUS, statuses[rank].to_json())
        raw += encode_json(Kind.NOTE, {"unseen": END_NOTE}) if rank in full else b""
        raw += encode_json(Kind.BYE, {}) if rank in byes else b""
        (folder / f"rank-{rank}.argus").write_bytes(raw[: len(raw) - cut])
    report = triage_files([folder], now_s=0.0)
    assert isinstance(report, Report)
    return report


def told(report: Report) -> str:
    """All that the card says."""
    return " ".join(render(report.incident, report.diagnosis, topology=report.topology).split())


def test_a_goodbye_of_every_rank_at_one_place_leaves_no_doubt(
    tmp_path: Path, records: tuple[RankRecords, ...]
) -> None:
    assert verdict(tmp_path, records, byes=(0, 1, 2, 3)).diagnosis["verdict"] == "NO_FAULT"


def test_without_any_goodbye_nobody_is_named_and_nothing_is_ruled_out(
    tmp_path: Path, records: tuple[RankRecords, ...]
) -> None:
    report = verdict(tmp_path, records)
    assert (report.diagnosis["verdict"], report.incident) == ("INCONCLUSIVE", None)
    assert "no rank said goodbye" in told(report)
    assert "end first" not in told(report)
    assert any("goodbye" in text for text in report.diagnosis["missing_evidence"])


@pytest.mark.parametrize("byes", [(), (2, 3)])
def test_recordings_at_their_size_limit_are_not_taken_for_ranks_without_a_goodbye(
    tmp_path: Path, records: tuple[RankRecords, ...], byes: tuple[int, ...]
) -> None:
    short = tuple(upto(one, STEPS - 10) for one in records[:2])
    full = (0, 1) if byes else (0, 1, 2, 3)
    report = verdict(tmp_path, (*short, *records[2:]), byes=byes, full=full)
    assert (report.diagnosis["verdict"], report.incident) == ("INCONCLUSIVE", None)
    assert "have reached their size limit" in told(report)
    assert "goodbye" not in told(report) and "end first" not in told(report)


def test_what_ended_the_first_program_is_told(tmp_path: Path, records: tuple[RankRecords, ...]) -> None:
    said = {1: (9, "ValueError in train.py:17"), 2: (12, "DistBackendError in train.py:30")}
    statuses = {
        rank: Status(ts_ns=ts_ns, step=STEPS, raised=raised) for rank, (ts_ns, raised) in said.items()
    }
    report = verdict(tmp_path, records, statuses=statuses)
    assert "rank 1 raised ValueError in train.py:17, 1 rank after it" in told(report)


@pytest.mark.parametrize("behind", [1, 5])
def test_a_running_job_whose_files_were_copied_one_after_the_other_accuses_nobody(
    tmp_path: Path, records: tuple[RankRecords, ...], behind: int
) -> None:
    copied = (upto(records[0], STEPS - behind), *records[1:])
    report = verdict(tmp_path, copied)
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert "end first" not in told(report)


@pytest.mark.parametrize("byes", [(), (2,)])
@pytest.mark.parametrize("behind", [1, 12])
def test_the_rank_without_the_call_that_the_others_waited_in_is_named(
    tmp_path: Path, records: tuple[RankRecords, ...], byes: tuple[int, ...], behind: int
) -> None:
    left = tuple(with_long_last_call(without_last_step(one)) for one in records)
    ends = (*left[:2], upto(records[2], STEPS - behind), left[3])
    report = verdict(tmp_path, ends, byes=byes)
    assert (report.diagnosis["verdict"], report.incident) == ("INCONCLUSIVE", None)
    assert report.diagnosis["headline"].count("rank 2's records end first") == 1


def test_calls_that_never_ended_are_known_from_the_last_signs_of_life(
    tmp_path: Path, records: tuple[RankRecords, ...]
) -> None:
    def status(one: RankRecords, *, more: int) -> Status:
        last, calls = one.steps[-1], one.collectives
        groups: dict[str, Any] = {}
        for index in np.unique(calls["group"]).tolist():
            done = int(calls["seq"][calls["group"] == index].max()) + 1
            groups[one.name(index)] = (done + more, done)
        end = int(last["end_ns"])
        usual = end - int(last["start_ns"])
        return Status(ts_ns=end + 50 * usual, step=STEPS, step_since_ns=end, step_p50_ns=usual, groups=groups)

    statuses = {one.layout.rank: status(one, more=int(one.layout.rank != 1)) for one in records}
    assert "rank 1's records end first" in told(verdict(tmp_path, records, statuses=statuses))


def test_records_that_are_cut_off_are_no_proof_of_health(
    tmp_path: Path, records: tuple[RankRecords, ...]
) -> None:
    report = verdict(tmp_path, records, byes=(0, 1, 2, 3), cut=20)
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert "cut off" in told(report)


def test_a_fault_that_is_clear_is_told_with_the_end_beside_it(tmp_path: Path) -> None:
    fault = Fault(kind="compute", ranks=(2,), start_step=10, severity=1.6)
    job = Job(ranks=4, steps=100, gpu=False, step_s=0.1)
    sick = simulate(job, [fault], rng=np.random.default_rng(5)).records
    report = verdict(tmp_path, sick)
    assert report.incident is not None and report.incident.cause.suspects == (2,)
    assert any("goodbye" in text for text in report.diagnosis["missing_evidence"])
