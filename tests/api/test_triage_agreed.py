"""A rank of a sharded job that computes a tenth slower, with part of it hidden behind its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.sharded import RATIO, report_of


@pytest.mark.slow
@pytest.mark.parametrize("steps", [6, 30])
def test_own_work_and_arrivals_that_agree_need_not_be_gross(tmp_path: Path, steps: int) -> None:
    report = report_of(tmp_path, slow=RATIO, steps=steps)
    assert [incident.cause.suspects for incident in report.incidents] == [(1,)]
    assert report.diagnosis["verdict"] == "INCONCLUSIVE", "one recording says who, and hardly why"


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "seed"), [(1.0, 1), (1.0, 2), (1.0, 3), (1.03, 1)])
def test_a_healthy_sharded_job_is_silent(tmp_path: Path, slow: float, seed: int) -> None:
    report = report_of(tmp_path, slow=slow, seed=seed)
    assert not report.incidents
    assert report.diagnosis["verdict"] == "NO_FAULT"
