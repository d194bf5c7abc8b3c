"""`argus report` over recordings of runs that stood still, were launched several times or lack ranks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.lost_hours import UNENDED
from argus.api.cli import main
from argus.collectors.gather import gather
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.heartbeat import Status
from argus.evals.simulator.frames import rank_frames
from tests.api.test_triage import recordings

STOOD_S = 300


def stood(folder: Path, *, mark: str = "", goodbye: bool = False) -> Path:
    """Recordings of four ranks whose last word comes long after their last step."""
    recordings(folder, steps=60)
    for reading in gather([folder], folder.parent / "s").readings:
        end_ns, path = int(reading.records.steps["end_ns"].max()), folder / reading.source
        last = Status(
            ts_ns=end_ns + STOOD_S * 10**9,
            step=60,
            phase="forward",
            step_since_ns=end_ns,
            step_p50_ns=100_000_000,
            in_mark=mark,
        )
        more = encode_json(Kind.STATUS, last.to_json())
        path.write_bytes(path.read_bytes() + more + (encode_json(Kind.BYE, {}) if goodbye else b""))
    return folder


def report(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, Any]:
    main(["report", "--json", str(folder)])
    out, err = capsys.readouterr()
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.slow
def test_time_in_a_step_that_never_ended_is_lost_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(capsys, stood(tmp_path / "job"))
    assert found["by_class"][UNENDED]["hours"] == pytest.approx(STOOD_S * 4 / 3600, rel=0.01)
    assert found["lost"]["share"] > 0.9 and "had not ended" in found["paragraph"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"mark": "checkpoint"}, {"goodbye": True}])
def test_a_save_or_an_end_in_order_is_no_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any]
) -> None:
    found = report(capsys, stood(tmp_path / "job", **options))
    assert UNENDED not in found["by_class"] and found["lost"]["share"] < 0.1


@pytest.mark.slow
def test_attempts_and_ranks_that_are_in_no_sum_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recordings(tmp_path / "job", steps=60)
    for path in sorted((tmp_path / "job").iterdir())[:3]:
        (one,) = gather([path], tmp_path / "s").readings
        layout = replace(one.records.layout, attempt=1)
        frames = rank_frames(replace(one.records, layout=layout))
        (tmp_path / "job" / f"again-{path.name}").write_bytes(b"".join(frames))
    (tmp_path / "job" / "rank-3.argus").unlink()
    main(["report", "--json", str(tmp_path / "job")])
    out, err = capsys.readouterr()
    lacks = json.loads(out)["lacks"]
    assert "other attempts and launches in the files" in lacks and "1 of 4 ranks" in lacks
    assert "attempt 0 is left out" in err
