"""`argus triage` through each of its doors, and through several at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argus.api.cli import main
from argus.collectors.readers._fake_dump import fake_dump
from argus.collectors.readers._fake_inspector import fake_inspector
from argus.collectors.readers._fake_logs import (
    ITERATION,
    STRAGGLER,
    dcgm_scrape,
    folded_stacks,
    timer_tables,
    watchdog_lines,
)
from argus.collectors.readers._fake_nsight import fake_report
from tests.api.test_triage import traces

Capture = pytest.CaptureFixture[str]


def triage(capsys: Capture, *paths: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and the JSON object."""
    code = main(["triage", "--json", *map(str, paths)])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def suspects(report: dict[str, Any]) -> list[list[int]]:
    return [incident["suspects"] for incident in report["incidents"]]


def test_nsight_reports_name_the_late_rank(tmp_path: Path, capsys: Capture) -> None:
    for rank in range(4):
        late = 6.0 if rank == 2 else 0.05 * rank
        fake_report(tmp_path / f"report-rank-{rank}.sqlite", late_ms=[late], latest_ms=6.5, num_steps=12)
    _, report = triage(capsys, tmp_path)
    assert suspects(report) == [[2]] and report["world_size"] == 4
    assert {call["last_rank"] for call in report["collectives"]} == {2}


def test_inspector_files_name_the_rank_the_others_wait_for(tmp_path: Path, capsys: Capture) -> None:
    for rank in range(8):
        late = 20_000 if rank == 5 else 50 * rank
        text = fake_inspector(rank=rank, world_size=8, late_us=late, latest_us=20_500, num_steps=30)
        (tmp_path / f"h-pid{rank}.log").write_text(text)
    _, report = triage(capsys, tmp_path)
    assert suspects(report) == [[5]]
    assert report["alignment"]["residual_us"] < 100


def test_timers_of_all_ranks_name_the_slow_one(tmp_path: Path, capsys: Capture) -> None:
    timers = {
        "forward-compute": [100.0 + r for r in range(8)],
        "backward-compute": [200.0 - r for r in range(8)],
    }
    (tmp_path / "train.log").write_text(timer_tables(timers, num_tables=60, slow={3: 1.5}))
    _, report = triage(capsys, tmp_path / "train.log")
    assert suspects(report) == [[3]]
    assert report["series"][0]["num_values"] == 60


@pytest.mark.parametrize("slow", [[], [2]])
@pytest.mark.parametrize("head", ["[Rank {}] rank={} time (ms) | ", "[Rank {}] time (ms) | "])
def test_deepspeed_timers_of_all_ranks_name_the_slow_one(
    tmp_path: Path, capsys: Capture, head: str, slow: list[int]
) -> None:
    lines = []
    for step in range(60):
        for rank in range(4):
            forward = (300 if rank not in slow else 450) + (step * 7 + rank * 3) % 5
            lines.append(
                "[2024-06-21 07:39:09,443] [INFO] [logging.py:96:log_dist] " + head.format(rank, rank)
            )
            lines.append(f"fwd: {forward:.2f} | bwd: {600 + (step + rank) % 4:.2f} | step: 20.82\n")
    (tmp_path / "train.log").write_text("".join(lines))
    _, report = triage(capsys, tmp_path / "train.log")
    assert suspects(report) == ([slow] if slow else [])


@pytest.mark.parametrize("slow", [{}, {3: 1.5}])
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_save_by_rank_0_in_a_log_of_timers_accuses_nobody(
    tmp_path: Path, capsys: Capture, slow: dict[int, float], is_alone: bool
) -> None:
    timers = {
        "forward-compute": [100.0 + r for r in range(8)],
        "backward-compute": [200.0 - r for r in range(8)],
    }
    tables = timer_tables(timers, num_tables=60, slow=slow).split(" [")
    head = "times across ranks (ms):\n" if is_alone else ""
    saved = head + "  save-checkpoint:\n     rank  0: 91234.50\n"
    told = " [".join(table + saved if at % 10 == 9 else table for at, table in enumerate(tables))
    (tmp_path / "train.log").write_text(told)
    _, report = triage(capsys, tmp_path / "train.log")
    assert told.count("save-checkpoint") == 6 and suspects(report) == [[rank] for rank in slow]


def test_watchdog_lines_name_the_rank_behind(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "slurm-1.out").write_text("start\n" * 9000 + watchdog_lines({3: 1}))
    _, report = triage(capsys, tmp_path)
    assert suspects(report) == [[3]] and report["incidents"][0]["class"] == "stop.hang"


def test_a_rank_whose_watchdog_is_silent_is_missing_not_accused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "slurm-1.out").write_text(watchdog_lines({}, silent=(3,)))
    code, report = triage(capsys, tmp_path)
    assert code == 1 and any("no dump of 1 rank of 8 (3)" in warning for warning in report["warnings"])


def test_a_witness_confirms_what_timing_says(tmp_path: Path, capsys: Capture) -> None:
    traces(tmp_path / "job", {5: 4_000}, num_steps=8)
    _, alone = triage(capsys, tmp_path / "job")
    (tmp_path / "job" / "train.log").write_text(STRAGGLER * 3)
    _, report = triage(capsys, tmp_path / "job")
    assert suspects(report) == suspects(alone) == [[5]]
    told = [item["name"] for item in report["diagnosis"]["evidence"]]
    assert "event_for" in told and report["diagnosis"]["verdict"] == "CONFIRMED"
    assert {item["node"] for item in report["seen"]} >= {"rank:5"}


def test_a_counter_told_once_is_a_note_and_one_that_grew_is_a_sign(tmp_path: Path, capsys: Capture) -> None:
    line = 'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="0",UUID="GPU-0000",Hostname="h-5"}} {}'
    traces(tmp_path / "job", {5: 4_000}, num_steps=8)
    for rank in range(8):
        path = tmp_path / "job" / f"rank{rank}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"host_name": f"h-{rank}"}))
    (tmp_path / "job" / "dcgm-1.prom").write_text(dcgm_scrape(1, host="h-5", more=(line.format(5),)))
    _, once = triage(capsys, tmp_path / "job")
    assert "event_for" not in [item["name"] for item in once["diagnosis"]["evidence"]]
    (tmp_path / "job" / "dcgm-2.prom").write_text(dcgm_scrape(1, host="h-5", more=(line.format(9),)))
    _, twice = triage(capsys, tmp_path / "job")
    assert "event_for" in [item["name"] for item in twice["diagnosis"]["evidence"]]
    assert suspects(once) == suspects(twice) == [[5]]


def test_a_witness_alone_accuses_nobody(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "dcgm.prom").write_text(dcgm_scrape(slow=(2,)))
    code, report = triage(capsys, tmp_path / "dcgm.prom")
    assert code == 0 and report["incidents"] == [] and report["diagnosis"]["verdict"] == "INCONCLUSIVE"
    assert any("held down by heat" in item["text"] for item in report["seen"])


def test_stacks_alone_say_what_the_ranks_do(tmp_path: Path, capsys: Capture) -> None:
    for rank in range(4):
        text = (
            folded_stacks() if rank == 2 else folded_stacks({"<module> (train.py:9);step (train.py:6)": 50})
        )
        (tmp_path / f"stacks-rank-{rank}.txt").write_text(text)
    _, report = triage(capsys, tmp_path)
    assert report["incidents"] == [] and report["ranks_seen"] == [0, 1, 2, 3]
    mine = next(stack for stack in report["stacks"] if stack["ranks"] == [2])
    assert mine["frames"][0].startswith("__next__ (torch/utils/data")
    assert main(["triage", str(tmp_path)]) == 1
    assert "rank 2: in 80% of its samples, in 0% of the other ranks'" in capsys.readouterr().out


def test_any_mix_is_one_answer(tmp_path: Path, capsys: Capture) -> None:
    """Traces of a slow rank, dumps of the hang that followed, step times and a scrape in one folder."""
    folder = traces(tmp_path / "job", {5: 4_000}, num_steps=8)
    groups = {"0": ("default_pg", range(8))}
    for rank in range(8):
        entered = 6 if rank == 3 else 7
        dump = fake_dump(groups=groups, counts={"0": (entered, 6)})
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump))
    (folder / "train.log").write_text("".join(ITERATION.format(step=n, ms=1000 + n % 3) for n in range(60)))
    (folder / "dcgm.prom").write_text(dcgm_scrape(slow=(2,)))
    _, report = triage(capsys, folder)
    assert suspects(report) == [[3], [5]] and report["incidents"][0]["class"] == "stop.hang"
    assert report["diagnosis"]["root_causes"][0]["fault_class"] == "stop.hang"
    assert report["series"][0]["num_values"] == 60 and report["stacks"] and report["seen"]
    assert main(["triage", str(folder)]) in (0, 1)
    out = capsys.readouterr().out
    assert "also: rank 5" in out and "seen: gpu:GPU-0002" in out


@pytest.mark.parametrize(
    ("num_ranks", "desc", "is_told"),
    [(12, "default_pg", True), (4, "default_pg", True), (4, "mesh_tp", False)],
)
def test_dumps_of_another_number_of_ranks_are_of_another_launch(
    tmp_path: Path, capsys: Capture, num_ranks: int, desc: str, is_told: bool
) -> None:
    """A dump without its default group only says how many ranks there are at least."""
    folder = traces(tmp_path / "job", {5: 4_000}, num_steps=8)
    for rank in range(num_ranks):
        dump = fake_dump(groups={"0": (desc, range(num_ranks))}, counts={"0": (6 if rank == 3 else 7, 6)})
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump))
    _, report = triage(capsys, folder)
    told = [warning for warning in report["warnings"] if "not of one launch" in warning]
    assert len(told) == is_told and all(
        f"of 8 ranks and the dumps of one of {num_ranks}" in text for text in told
    )


def test_calls_that_are_pending_clear_nobody(tmp_path: Path, capsys: Capture) -> None:
    """Entries without numbers or times: the ranks are stuck somewhere, and no counter says who is behind."""
    entry = {"process_group": ["0", "default_pg"], "state": "scheduled"}
    for rank in range(2):
        raw = fake_dump(groups={"0": ("default_pg", (0, 1))}, counts={"0": (1, 1)}) | {
            "entries": [entry],
            "pg_status": {},
        }
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(raw))
    _, report = triage(capsys, tmp_path)
    assert "calls are pending" in json.dumps(report) and "NO_FAULT" not in json.dumps(report)
