"""A rank that stands out in profiles without collectives: what nobody measured is not claimed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argus.api.cli import main
from tests.api.test_triage import traces


def test_what_it_costs_is_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {2: 4_000}, world=4, num_steps=12)
    for path in folder.iterdir():
        trace = json.loads(path.read_text())
        kept = [one for one in trace["traceEvents"] if one["cat"] in ("cpu_op", "user_annotation")]
        path.write_text(json.dumps(trace | {"traceEvents": kept}))
    main(["triage", str(folder)])
    card = " ".join(capsys.readouterr().out.split())
    assert "rank 2 stands out, what that costs is not seen: forward" in card
    assert "Cost not seen: no wait of another rank is recorded" in card and "e-1" not in card
    main(["triage", "--json", str(folder)])
    (incident,) = json.loads(capsys.readouterr().out)["incidents"]
    assert incident["cost"]["s_per_step"] == incident["cost"]["gpu_hours_per_day"] == 0.0
