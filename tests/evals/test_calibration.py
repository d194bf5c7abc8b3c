"""Calibration: what is measured is what was put in, and what differs is said to differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import main
from argus.collectors.records.events import KERNEL, RankRecords
from argus.collectors.records.layout import Layout
from argus.evals import calibrate
from argus.evals.calibration import call_waits, kernel_scatter, phase_shares, step_noise, table
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

JOB = Job(ranks=4, steps=12, warmup_steps=0)


def test_the_noise_of_steps_is_measured_whatever_their_level() -> None:
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0, 0.03, 600)) * np.linspace(1, 3, 600)
    values[100::50] *= 1.5
    found = step_noise([values, values[:40]])
    assert found["spread"] == [pytest.approx(0.03, rel=0.15)]
    assert found["share over 1.25x"] == [pytest.approx(10 / 590, rel=0.15)]
    assert abs(found["memory (lag 1, share)"][0]) < 0.15


def test_who_is_late_makes_the_others_wait_in_the_call() -> None:
    late = Fault(kind="compute", ranks=(2,), severity=2.0)
    even, uneven = (
        call_waits(simulate(JOB, faults, rng=np.random.default_rng(1)).records) for faults in ([], [late])
    )
    assert np.median(uneven["all_reduce"]) > 2 * np.median(even["all_reduce"])
    assert min(uneven["all_reduce"]) == 0.0 and max(uneven["all_reduce"]) <= 1.0


def test_shares_of_phases_are_of_the_step() -> None:
    done = simulate(replace(JOB, gc_every=0), rng=np.random.default_rng(1))
    found = phase_shares(done.records)
    assert 0.2 < np.median(found["forward"]) < 0.35 and 0.5 < np.median(found["backward"]) < 0.75


def test_scatter_is_that_of_one_mode() -> None:
    rng = np.random.default_rng(2)
    rows = np.zeros(4000, KERNEL)
    rows["name"], rows["role"] = 1, 2
    rows["dur_ns"] = np.exp(rng.normal(0, 0.02, 4000)) * np.where(np.arange(4000) % 2, 1e5, 4e5)
    layout = Layout(run="r", attempt=0, rank=0, world_size=1)
    found = kernel_scatter([RankRecords(layout=layout, names=("", "gemm_1", "compute"), kernels=rows)])
    assert found["GEMM"] == [pytest.approx(0.02, rel=0.1)] * 2


def test_a_median_off_by_more_than_twice_differs_and_small_shares_are_alike() -> None:
    real = {"a": {"x": [1.0, 2.0, 3.0], "y share": [0.001, 0.002]}, "b": {"z": [1.0]}}
    made = {"a": {"x": [5.0, 6.0], "y share": [0.02, 0.03]}, "b": {}}
    found = table(real, made)
    assert [(line.name, line.alike) for line in found.lines] == [("x", False), ("y share", True)]
    assert found.lacks == ("b: z is only recorded",)
    assert "the median x is 2.8 times the recorded one" in calibrate.render(found)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / calibrate.SERIES
    folder.mkdir(parents=True)
    values = np.exp(np.random.default_rng(3).normal(0, 0.02, 200))
    (folder / "a.json").write_text(json.dumps({"one": {"interval": 1, "values": values.tolist()}}))
    return folder.parent


@pytest.mark.slow
def test_the_command_writes_what_it_can_and_says_what_is_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "NUM_JOBS", 3)
    monkeypatch.setattr(calibrate, "STEPS", 80)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{calibrate.BEGIN}\nold\n{calibrate.END}\nafter\n", encoding="utf-8")
    assert main(["eval", "calibrate", "--data", str(data), "--json", "--write", str(page)]) == 1
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert [line["name"] for line in said["lines"]] == ["memory (lag 1, share)", "share over 1.25x", "spread"]
    assert "kineto/hta-2rank is not there" in said["warnings"] and "is not there" in err
    text = page.read_text(encoding="utf-8")
    assert (
        text.startswith("before\n")
        and text.endswith("\nafter\n")
        and "| spread |" in text
        and "old" not in text
    )


@pytest.mark.parametrize("wrong", ["no data", "no page", "no place"])
def test_what_cannot_be_done_is_said_before_anything_is_simulated(
    wrong: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if wrong == "no place":
        page.write_text("nothing here", encoding="utf-8")
    folder = tmp_path / "nowhere" if wrong == "no data" else data
    arguments = ["eval", "calibrate", "--data", str(folder)]
    assert main(arguments if wrong == "no data" else [*arguments, "--write", str(page)]) == 2
    assert {"no data": "holds none", "no page": "cannot be read", "no place": "has no place"}[
        wrong
    ] in capsys.readouterr().err
