"""`argus triage` on a table of pipeline timers: the verdict, the what-if and the ideal timeline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.api.cli import main
from argus.collectors.readers._fake_timers import FakeJob, fake_rows, write_table

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "straggler-analysis"
pytest.importorskip("pyarrow")
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not here")


def report(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["triage", *words, "--json"]) in (0, 1)
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def noisy(slow: dict[tuple[int, int], float]) -> FakeJob:
    rng = np.random.default_rng(1)
    return FakeJob(replicas=4, steps=40, slow=slow, noise=lambda: float(rng.lognormal(sigma=0.01)))


def test_a_sick_worker_is_named_with_what_it_is_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table(tmp_path / "t.parquet", fake_rows(noisy({(2, 1): 1.8})))
    said = report(capsys, str(path))
    (incident,) = said["incidents"]
    assert (incident["class"], incident["suspects"], incident["verdict"]) == (
        "compute.slow",
        [6],
        "CONFIRMED",
    )
    assert incident["cost"]["method"] == "replay of the step"
    assert said["what_if"]["worker_share"] > 0.9
    lost = said["what_if"]["step_s"] - said["what_if"]["ideal_step_s"]
    assert 0.9 * lost <= incident["cost"]["s_per_step"] <= 1.3 * lost  # the ideal's mean holds the sick one


def test_a_worker_whose_work_the_bubbles_mostly_hide_is_named_from_its_first_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its stage has a lighter load than the last; what is left of its delay is a cost, and none of it was there before."""
    heavy = {(replica, 3): 1.6 for replica in range(4)}
    sick = noisy({**heavy, (2, 1): 2.0})
    late = [{**row, "step": int(str(row["step"])) + 20} for row in fake_rows(replace(sick, steps=30))]
    rows = [*fake_rows(replace(noisy(heavy), steps=20)), *late]
    said = report(capsys, str(write_table(tmp_path / "t.parquet", rows)))
    incident = next(one for one in said["incidents"] if one["suspects"])
    assert (incident["class"], incident["suspects"], incident["onset_step"]) == ("compute.slow", [6], 20)
    excess = 8 * 0.3 * 1.0
    assert incident["cost"]["share_of_step"] >= 0.02 and incident["cost"]["s_per_step"] < 0.5 * excess
    assert [one["class"] for one in said["incidents"] if not one["suspects"]] == ["pipeline.imbalance"]


def test_an_even_pipeline_accuses_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = report(capsys, str(write_table(tmp_path / "t.parquet", fake_rows(noisy({})))))
    assert said["incidents"] == [] and said["diagnosis"]["verdict"] == "NO_FAULT"
    assert said["what_if"]["slowdown"] < 1.05


def test_a_heavy_stage_accuses_no_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = fake_rows(noisy({(replica, 3): 1.5 for replica in range(4)}))
    said = report(capsys, str(write_table(tmp_path / "t.parquet", rows)))
    (incident,) = said["incidents"]
    assert (incident["class"], incident["suspects"], incident["scope"]) == (
        "pipeline.imbalance",
        [],
        "stage:3",
    )
    compute = next(item for item in said["diagnosis"]["evidence"] if item["name"] == "stage_compute_s")
    assert compute["value"] / compute["baseline"] == pytest.approx(1.5, abs=0.02)
    assert said["what_if"]["stage_share"] > 0.8


def test_the_ideal_timeline_is_written_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "t.parquet", fake_rows(FakeJob(replicas=4, steps=4)))
    out = tmp_path / "ideal.json"
    assert main(["triage", str(path), "--ideal-timeline", str(out)]) in (0, 1)
    assert "what if:" in capsys.readouterr().out
    assert json.loads(out.read_text())["traceEvents"]


@needs_shared
@pytest.mark.slow
def test_the_public_job_with_a_sick_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = report(capsys, str(SHARED / "trace-AR.parquet"))
    (incident,) = said["incidents"]
    assert (incident["class"], incident["suspects"]) == ("compute.slow", [0])
    own = next(item for item in said["diagnosis"]["evidence"] if item["name"] == "self_s")
    assert own["value"] / own["baseline"] == pytest.approx(2.27, abs=0.03)
    assert said["what_if"]["slowdown"] == pytest.approx(1.973, rel=0.01)
    assert said["what_if"]["worker_share"] == pytest.approx(1.0, abs=0.02)


@needs_shared
@pytest.mark.slow
def test_the_public_job_with_uneven_sequences_accuses_no_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = report(capsys, str(SHARED / "trace-SE.parquet"))
    assert [(i["class"], i["suspects"]) for i in said["incidents"]] == [("pipeline.imbalance", [])]
    assert said["what_if"]["slowdown"] == pytest.approx(1.537, rel=0.01)
    assert said["what_if"]["stage_share"] == pytest.approx(0.688, abs=0.02)
    assert said["what_if"]["worker_share"] == pytest.approx(0.025, abs=0.02)
