"""The GPU check's judgement on made-up figures, and its one sentence where there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from argus.collectors.records.events import KERNEL, STEP, RankRecords
from argus.collectors.records.layout import Layout
from argus.evals import gpu_check

STEPS = {"pairs": [10, 12], "raw": [20, 21, 22, 23], "objects": [30, 31, 32, 33], "after": [50, 51, 52, 53]}


def recorded() -> RankRecords:
    """Two gemms and a copy in every step that CUPTI saw."""
    steps = [step for part in STEPS.values() for step in part]
    rows = np.zeros(3 * len(steps), KERNEL)
    rows["step"] = np.repeat(steps, 3)
    rows["name"] = np.tile([1, 1, 2], len(steps))
    rows["dur_ns"] = np.tile([100_000, 100_000, 2_000], len(steps))
    layout = Layout(run="r", attempt=0, rank=0, world_size=1)
    return RankRecords(
        layout=layout, names=("", "gemm", "Memcpy HtoD"), kernels=rows, steps=np.zeros(60, STEP)
    )


def measured(**changes: Any) -> dict[str, Any]:
    """What a job that went well measured."""
    path = {"seconds": 2.0, "records": 24, "rows": 12, "buffers": 2, "decode_ns": 48_000, "how": "raw"}
    middle = {"stood_aside": True, "profiler_events": 9, "during": [40, 41, 42], "after": STEPS["after"]}
    blocks = [{"off": 0.1, "all": 0.1005, "torch.profiler": 0.13} for _ in range(5)]
    return {
        "pairs": {"steps": STEPS["pairs"], "profiler": {"gemm": [100_400] * 4, "Memcpy HtoD": [2_300] * 2}},
        "raw": {"steps": STEPS["raw"], **path},
        "objects": {"steps": STEPS["objects"], **path},
        "middle": middle,
        "blocks": blocks,
        "gpu": "GPU",
        "torch": "2",
        "notes": [],
        "dropped": {},
        "failed": {},
        "pairs_s": 3.0,
        **changes,
    }


def test_a_job_that_went_well_passes() -> None:
    result = gpu_check.figures(measured(), recorded())
    assert result["ok"] and all(result["checks"].values())
    assert result["bytes_per_rank_step"] > 3 * 2 * 10 and result["seconds"] == {"pairs": 3.0}
    assert result["paths"]["raw"]["records_per_s"] == 12
    assert abs(result["arms"]["all"]["ratio"] - 1.005) < 1e-9 and result["arms"]["all"]["n"] == 5
    assert "2 of 2 kernels agree" in gpu_check.table(result)


@pytest.mark.parametrize(
    "theirs",
    [
        {"gemm": [100_400] * 3, "Memcpy HtoD": [2_300] * 2},  # one launch less
        {"gemm": [102_000] * 4, "Memcpy HtoD": [2_300] * 2},  # two per cent longer
        {"gemm": [100_400] * 4, "Memcpy HtoD": [2_300] * 2, "other": [5]},
        {},
    ],
)
def test_another_profilers_other_numbers_fail(theirs: dict[str, list[int]]) -> None:
    job = measured(pairs={"steps": STEPS["pairs"], "profiler": theirs})
    result = gpu_check.figures(job, recorded())
    assert not result["ok"] and not result["checks"]["counts and medians agree with torch.profiler"]


def test_a_channel_that_stays_away_or_in_the_way_fails() -> None:
    after = gpu_check.figures(
        measured(middle={"stood_aside": True, "profiler_events": 1, "during": [40], "after": [60, 61, 62]}),
        recorded(),
    )
    during = gpu_check.figures(
        measured(
            middle={"stood_aside": False, "profiler_events": 1, "during": [20, 21, 22], "after": [50, 51, 52]}
        ),
        recorded(),
    )
    assert not after["checks"]["we come back"] and not after["ok"]
    assert not during["checks"]["we stand aside for torch.profiler"]
    assert not during["checks"]["no kernels of ours meanwhile"]


def test_without_a_gpu_it_says_so_and_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert gpu_check.main([]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no GPU" in said.err


@pytest.mark.parametrize("lost", ["pairs", "raw", "objects", "middle", "blocks"])
def test_a_part_that_failed_fails_the_check_and_leaves_the_others(lost: str) -> None:
    job = measured(failed={lost: "RuntimeError: no"})
    del job[lost]
    result = gpu_check.figures(job, recorded())
    assert not result["ok"] and sum(result["checks"].values()) >= 3
    assert f"{lost} failed: RuntimeError: no" in gpu_check.table(result)


def test_a_job_that_died_once_all_was_measured_fails_the_check() -> None:
    result = gpu_check.figures(measured(failed={"job": "the workload ended with code -11"}), recorded())
    assert not result["ok"] and not result["checks"]["the job ended in order"]
    assert sum(not holds for holds in result["checks"].values()) == 1


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_way_runs_dry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert gpu_check.main(["--dry-run", "--blocks", "2", "--json", str(out)]) == 0, capsys.readouterr().out
    result = json.loads(out.read_text())
    assert result["failed"] == {} and all(result["checks"].values())
    assert {arm["n"] for arm in result["arms"].values()} == {2} and len(result["arms"]) == 3
    assert {kernel["ours"] for kernel in result["kernels"]} == {20 * 8}
    assert result["paths"]["raw"]["per_step"] == [24] and result["bytes_per_rank_step"] > 1000
    assert "dry run" in capsys.readouterr().out
