"""`argus triage` of jobs whose GPUs are of several models: who has no peer of its kind is judged honestly."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from argus.agent.card import render
from argus.api.offline.files import triage_files
from argus.api.report import Report
from argus.collectors.readers._fake_nsight import fake_report


def triaged(folder: Path, models: str, late_ms: tuple[float, ...]) -> Report:
    """One report a rank, twelve steps; rank i has the GPU `models[i]` and computes `late_ms[i]` longer."""
    for rank, (model, late) in enumerate(zip(models, late_ms, strict=True)):
        path = folder / f"rank{rank}.sqlite"
        fake_report(path, late_ms=[late], latest_ms=max(late_ms), host=f"node-{rank}", num_steps=12)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE TARGET_INFO_GPU SET name = ?", (f"Model {model}",))
    report = triage_files([folder], now_s=0.0)
    assert isinstance(report, Report)
    assert json.dumps(report.to_json(), allow_nan=False)
    return report


def card(report: Report) -> str:
    return " ".join(render(report.incidents[0], report.diagnosis, topology=report.topology).split())


@pytest.mark.slow
@pytest.mark.parametrize("models", ["AAAB", "ABCD"])
def test_the_only_one_of_its_model_is_compared_with_the_others(tmp_path: Path, models: str) -> None:
    report = triaged(tmp_path, models, (0.0, 0.0, 0.0, 15.0))
    (incident,) = report.incidents
    assert incident.cause.suspects == (3,) and incident.cause.fault_class == "compute.slow"
    assert incident.cause.s_per_step == pytest.approx(0.015, rel=0.05)
    own = next(item for item in incident.cause.evidence if item.name == "self_s")
    assert own.baseline is not None and own.value - own.baseline == pytest.approx(0.015, rel=0.05)
    # Its model alone may make it slower: that is said, and no machine is taken out for it.
    assert incident.cause.verdict == "LIKELY" and "another GPU model (Model " in card(report)


@pytest.mark.slow
def test_a_suspect_among_its_like_is_told_as_ever(tmp_path: Path) -> None:
    report = triaged(tmp_path, "AAAB", (0.0, 0.0, 15.0, 0.0))
    (incident,) = report.incidents
    assert incident.cause.suspects == (2,) and incident.cause.verdict == "CONFIRMED"
    assert "another GPU model" not in card(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "late_ms"),
    [
        ("AABB", (0.0, 0.0, 6.0, 6.0)),
        ("AAAABBBB", (0.0,) * 4 + (6.0,) * 4),
        ("AAAB", (6.0, 6.0, 6.0, 0.0)),
        ("AAB", (6.0, 6.0, 0.0)),
    ],
)
def test_models_of_different_speed_are_no_fault(
    tmp_path: Path, models: str, late_ms: tuple[float, ...]
) -> None:
    assert not triaged(tmp_path, models, late_ms).incidents


@pytest.mark.slow
def test_without_peers_own_work_is_compared_with_nobody(tmp_path: Path) -> None:
    report = triaged(tmp_path, "AAB", (0.0, 0.0, 15.0))
    (incident,) = report.incidents
    assert incident.cause.suspects == (2,) and incident.cause.verdict == "INCONCLUSIVE"
    own = next(item for item in incident.cause.evidence if item.name == "own_self_s")
    assert own.baseline is None and "no peer to compare with" in card(report)
    shares = [finding.share_of_step for finding in report.findings if finding.role == "culprit"]
    assert shares and all(share is not None and 0 < share < 1 for share in shares)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "late_ms", "verdict", "alone"),
    [
        ("AAB", (0.0, 0.0, 0.0), "INCONCLUSIVE", "rank 2"),
        ("AAB", (6.0, 6.0, 0.0), "INCONCLUSIVE", "rank 2"),
        ("AAABC", (0.0,) * 5, "INCONCLUSIVE", "ranks 3, 4"),
        ("AAB", (0.0, 15.0, 0.0), "LIKELY", "rank 2"),  # of two of one model each is the other's peer
        ("AAA", (0.0, 0.0, 0.0), "NO_FAULT", ""),
        ("AAAB", (0.0, 0.0, 0.0, 0.0), "NO_FAULT", ""),
        ("AABB", (0.0, 0.0, 6.0, 6.0), "NO_FAULT", ""),
    ],
)
def test_a_rank_without_peers_is_named_and_not_cleared(
    tmp_path: Path, models: str, late_ms: tuple[float, ...], verdict: str, alone: str
) -> None:
    diagnosis = triaged(tmp_path, models, late_ms).diagnosis
    assert diagnosis["verdict"] == verdict
    told = [text for text in diagnosis["missing_evidence"] if text.startswith("peers of")]
    assert bool(told) == bool(alone) and all(text.startswith(f"peers of {alone}:") for text in told)
    assert (f"own work of {alone} is compared" in diagnosis["headline"]) == (verdict == "INCONCLUSIVE")
