"""`argus report` over recordings of a run that stood still until it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.lost_hours import UNENDED
from argus.api.cli import main
from argus.collectors.gather import gather
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.heartbeat import Status
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
