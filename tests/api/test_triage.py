"""`argus triage` as a user runs it: files in, a verdict and an exit code out."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.api.cli import main
from argus.collectors.readers._fake import fake_trace
from argus.collectors.records.frames import Kind, encode_json
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not here")

KEYS = {
    "world_size",
    "ranks_seen",
    "alignment",
    "collectives",
    "findings",
    "incidents",
    "diagnosis",
    "warnings",
}


def traces(
    folder: Path,
    late_us: Mapping[int, float],
    *,
    world: int = 8,
    clocks_us: Mapping[int, float] | None = None,
    **options: Any,
) -> Path:
    """One trace a rank; `late_us` by rank, everybody's collectives end with the latest."""
    folder.mkdir(parents=True, exist_ok=True)
    latest = max(late_us.values(), default=0.0)
    for rank in range(world):
        trace = fake_trace(
            rank=rank,
            world_size=world,
            late_us=late_us.get(rank, 0.0) + 7 * rank,
            latest_us=latest + 7 * world,
            clock_us=(clocks_us or {}).get(rank, 0.0),
            **options,
        )
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return folder


def recordings(folder: Path, *, kind: str = "", ranks: int = 4, steps: int = 100) -> Path:
    """What `argus run` writes: one recording a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    faults = [Fault(kind=kind, ranks=(2,), start_step=50, severity=1.6)] if kind else []
    job = Job(ranks=ranks, steps=steps, gpu=False, step_s=0.1)
    for one in simulate(job, faults, rng=np.random.default_rng(5)).records:
        (folder / f"rank-{one.layout.rank}.argus").write_bytes(b"".join(rank_frames(one)))
    return folder


def triage(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object (empty if there is none) and stderr."""
    code = main(["triage", "--json", *map(str, words)])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_a_late_rank_is_named_with_the_wait_it_caused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, _ = triage(capsys, traces(tmp_path / "job", {5: 4_000}))
    assert code == 0 and set(report) == KEYS and report["warnings"] == []
    assert report["world_size"] == 8 and report["ranks_seen"] == list(range(8))
    assert [(c["op"], c["seq"], c["last_rank"]) for c in report["collectives"]] == [
        ("all_to_all", 0, 5),
        ("all_reduce", 1, 5),
    ]
    assert all(4_000 <= c["wait_us_max"] <= 4_060 for c in report["collectives"])
    (incident,) = report["incidents"]
    assert incident["suspects"] == [5] and incident["class"] == "compute.slow"
    assert incident["onset_step"] == 3, "the profiler's own number"
    assert report["diagnosis"]["root_causes"][0]["node"] == "rank:5"
    assert report["diagnosis"]["headline"].startswith("rank 5 ")


def test_the_longest_collective_is_not_the_culprit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 5 has the shortest, the earliest rank the longest."""
    _, report, _ = triage(capsys, traces(tmp_path / "job", {5: 4_000}))
    assert 0 not in {rank for incident in report["incidents"] for rank in incident["suspects"]}
    assert {c["last_rank"] for c in report["collectives"]} == {5}


def test_clocks_that_differ_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clocks = {1: 9_000.0, 2: -25_000.0, 6: 120.0}
    folder = traces(tmp_path / "job", {5: 4_000}, clocks_us=clocks, num_steps=4)
    _, report, _ = triage(capsys, folder)
    assert report["alignment"]["method"] == "collective ends"
    assert report["alignment"]["residual_us"] < 50
    assert {c["last_rank"] for c in report["collectives"]} == {5}
    assert [i["suspects"] for i in report["incidents"]] == [[5]]


def test_equal_ranks_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = triage(capsys, traces(tmp_path / "job", {}), "--fail-on-fault")
    assert code == 0 and report["incidents"] == []
    assert report["diagnosis"]["verdict"] == "NO_FAULT"


def test_missing_ranks_leave_the_rest_analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {5: 4_000})
    (folder / "rank3.json").unlink()
    code, report, err = triage(capsys, folder)
    assert code == 1 and report["ranks_seen"] == [0, 1, 2, 4, 5, 6, 7]
    assert "1 of 8 rank is missing: 3" in report["warnings"] and "1 of 8 rank is missing: 3" in err
    assert {c["last_rank"] for c in report["collectives"]} == {5}
    assert [i["suspects"] for i in report["incidents"]] == [[5]]
    assert "1 of 8 ranks" in report["diagnosis"]["missing_evidence"]


def test_few_of_many_ranks_accuse_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {1: 4_000})
    for rank in range(2, 8):
        (folder / f"rank{rank}.json").unlink()
    code, report, _ = triage(capsys, folder)
    assert code == 1 and report["incidents"] == [] and report["collectives"] == []
    assert report["diagnosis"]["verdict"] == "INCONCLUSIVE"


def test_gzip_cut_short_and_a_file_without_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {5: 4_000}, num_steps=6)
    packed = gzip.compress((folder / "rank2.json").read_bytes())
    (folder / "rank2.json").unlink()
    (folder / "rank2.json.gz").write_bytes(packed[: int(len(packed) * 0.8)])
    (folder / "stray.json").write_text(json.dumps(fake_trace(rank=0, world_size=8, info={})))
    code, report, _ = triage(capsys, folder)
    assert code == 1 and report["ranks_seen"] == list(range(8))
    assert any("rank2.json.gz" in w and "cut short" in w for w in report["warnings"])
    assert any("stray.json" in w and "the rank is missing" in w for w in report["warnings"])
    assert {c["last_rank"] for c in report["collectives"]} == {5}


def test_nothing_usable_is_one_sentence_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = tmp_path / "trace.json"
    stray.write_text(json.dumps(fake_trace(rank=0, world_size=8, info={})))
    for path, said in (
        (stray, "the rank is missing"),
        (tmp_path / "none", "No such file"),
        (tmp_path, "rank"),
    ):
        code, report, err = triage(capsys, path)
        assert code == 2 and not report
        assert said in err and "Traceback" not in err and err.count("\n") == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert triage(capsys, empty)[0] == 2


def test_text_is_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", str(traces(tmp_path / "job", {5: 4_000}))]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith(" 8 of 8 ranks · 1 step · 2 collectives compared")
    assert "compute.slow" in out and "rank 5" in out and "Next" in out and "\x1b" not in out


def test_repeated_steps_and_second_files_of_a_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = traces(tmp_path / "job", {5: 4_000})
    shutil.copy(folder / "rank4.json", folder / "rank4-again.json")
    code, report, _ = triage(capsys, folder)
    assert code == 1 and report["ranks_seen"] == list(range(8))
    assert any("repeats steps of rank 4" in w for w in report["warnings"])


def test_a_call_missing_in_one_trace_does_not_shift_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = traces(tmp_path / "job", {5: 4_000}, num_steps=3)
    trace = json.loads((folder / "rank1.json").read_text())
    first = next(e for e in trace["traceEvents"] if "SendRecv" in e["name"])
    trace["traceEvents"].remove(first)
    (folder / "rank1.json").write_text(json.dumps(trace))
    code, report, _ = triage(capsys, folder)
    assert code == 0 and not report["warnings"]
    assert [c["seq"] for c in report["collectives"]] == [1, 2, 3, 4, 5]
    assert {c["last_rank"] for c in report["collectives"]} == {5}


@pytest.mark.slow
def test_recordings_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = triage(capsys, recordings(tmp_path / "slow", kind="starved"), "--fail-on-fault")
    assert code == 3
    (incident,) = report["incidents"]
    assert (incident["class"], incident["suspects"], incident["verdict"]) == (
        "host.cpu_starved",
        [2],
        "CONFIRMED",
    )
    assert 48 <= incident["onset_step"] <= 60
    code, report, _ = triage(capsys, recordings(tmp_path / "fine"), "--fail-on-fault")
    assert code == 0 and report["incidents"] == [] and report["diagnosis"]["verdict"] == "NO_FAULT"


def test_half_a_pair_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = recordings(tmp_path / "job", ranks=2, steps=40)
    (folder / "rank-1.argus").unlink()
    code, report, _ = triage(capsys, folder)
    assert (code, report["diagnosis"]["verdict"]) == (1, "INCONCLUSIVE")


def test_a_rank_that_said_no_goodbye_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = recordings(tmp_path / "job", steps=20)
    one = folder / "rank-2.argus"
    one.write_bytes(one.read_bytes().removesuffix(encode_json(Kind.BYE, {})))
    code, report, _ = triage(capsys, folder)
    assert code == 1
    assert [w for w in report["warnings"] if "goodbye" in w] == [
        "rank-2.argus: the rank said no goodbye: it was killed, failed or still runs"
    ]


@pytest.mark.slow
def test_a_mixed_folder_analyses_the_larger_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {5: 4_000})
    recordings(folder, ranks=4, steps=20)
    code, report, _ = triage(capsys, folder)
    assert code == 1 and report["world_size"] == 8
    assert any("is left out, one job is analysed at a time" in w for w in report["warnings"])
    assert [i["suspects"] for i in report["incidents"]] == [[5]]


def test_the_same_input_gives_the_same_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {5: 4_000})
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        archive.add(folder, "job")
    first = triage(capsys, folder)
    assert triage(capsys, folder) == first
    assert triage(capsys, tmp_path / "job.tar.gz") == first


# The public traces


@needs_shared
@pytest.mark.slow
def test_dlrm_names_rank_7_and_not_rank_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = triage(capsys, SHARED / "kineto" / "dlrm-8rank-v100.tar.gz")
    assert code == 0
    assert [c["last_rank"] for c in report["collectives"]] == [7, 7, 7, 7, 7, 5, 5, 4]
    assert [c["op"] for c in report["collectives"]].count("all_to_all") == 5
    assert report["collectives"][0]["wait_us_max"] == pytest.approx(7624, abs=20)
    assert report["alignment"]["residual_us"] <= 7
    assert [incident["suspects"] for incident in report["incidents"]] == [[7]]
    assert report["diagnosis"]["root_causes"][0]["node"] == "rank:7"
    assert report["diagnosis"]["verdict"] in ("LIKELY", "INCONCLUSIVE")


@needs_shared
def test_two_of_128_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = triage(capsys, SHARED / "kineto" / "hta-2rank")
    assert code == 1 and report["ranks_seen"] == [0, 1]
    assert any(w.startswith("126 of 128 ranks are missing") for w in report["warnings"])
    assert report["diagnosis"]["verdict"] == "INCONCLUSIVE"


@needs_shared
@pytest.mark.parametrize("path", sorted((SHARED / "kineto-odd").glob("*")), ids=lambda p: p.name[:20])
def test_odd_files_alone(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, err = triage(capsys, path)
    if code == 2:
        assert path.name in err and "missing" in err and err.count("\n") == 1
    else:
        assert code == 1 and set(report) == KEYS
