"""`argus diff` of short profiles: a window each, or no steps at all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from argus.api.cli import main
from tests.api.test_triage import traces


def compared(capsys: pytest.CaptureFixture[str], one: Path, other: Path) -> dict[str, Any]:
    main(["diff", "--json", str(one), str(other)])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def changes(found: dict[str, Any], section: str) -> list[dict[str, Any]]:
    return [change for change in found["changes"] if change["section"] == section]


def test_a_step_that_takes_a_third_longer_is_told_by_single_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = traces(tmp_path / "a", {}, world=4, num_steps=12)
    other = traces(tmp_path / "b", {1: 4_000}, world=4, num_steps=12)
    (step,) = changes(compared(capsys, one, other), "step")
    assert step["ratio"] == pytest.approx(1.4, abs=0.01)
    assert not changes(compared(capsys, one, one), "step")
    few = traces(tmp_path / "c", {1: 4_000}, world=4, num_steps=2)
    assert not changes(compared(capsys, traces(tmp_path / "d", {}, world=4, num_steps=2), few), "step")


def test_kernels_are_told_with_what_their_numbers_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = traces(tmp_path / "a", {}, world=4, num_steps=12)
    other = traces(tmp_path / "b", {1: 4_000}, world=4, num_steps=12)
    assert {change["unit"] for change in changes(compared(capsys, one, other), "kernels")} == {"s"}
    main(["diff", str(one), str(other)])
    assert re.search(r"SendRecv: [\d.]+ µs → [\d.]+ ms \(", capsys.readouterr().out)


def test_a_whole_trace_is_not_compared_with_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (traces(tmp_path / name, {}, world=4, num_steps=12) for name in "ab")
    for path in other.iterdir():
        trace = json.loads(path.read_text())
        kept = [event for event in trace["traceEvents"] if not event["name"].startswith("ProfilerStep")]
        path.write_text(json.dumps(trace | {"traceEvents": kept}))
    found = compared(capsys, one, other)
    assert not found["changes"] and any("step boundaries" in text for text in found["lacks"])
    assert not compared(capsys, other, other)["changes"]
