"""One pause that outweighs all the rest of a short profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.sharded import Pause, report_of

MINUTE_US = 60e6


@pytest.mark.slow
@pytest.mark.parametrize(("at", "steps"), [(4, 12), (14, 30)])
def test_one_pause_of_a_minute_is_told_with_its_rank_and_step(tmp_path: Path, at: int, steps: int) -> None:
    report = report_of(tmp_path, slow=1.0, steps=steps, pause=Pause(at=at, dur_us=MINUTE_US))
    (found,) = [one for one in report.findings if one.detector == "long_wait"]
    assert (found.ranks, found.start_step) == ((0,), at + 2)
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert "rank 0" in report.diagnosis["headline"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pause",
    [
        Pause(at=0, dur_us=MINUTE_US),
        Pause(at=6, dur_us=5e6),
        Pause(at=6, dur_us=MINUTE_US, name="save_checkpoint"),
    ],
    ids=["the first step", "a few seconds", "a checkpoint"],
)
def test_a_pause_that_is_explained_or_short_is_not(tmp_path: Path, pause: Pause) -> None:
    report = report_of(tmp_path, slow=1.0, steps=12, pause=pause)
    assert not report.findings
    assert report.diagnosis["verdict"] == "NO_FAULT"
