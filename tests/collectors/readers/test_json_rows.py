"""Metrics logs in JSON: an object a line or a list of objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argus.collectors.readers import Reading, reader_for
from argus.collectors.readers.step_series import read, sniff

ROWS = [{"_step": step, "train": {"loss": 2.5, "step_time": 0.5 + step / 100}} for step in range(6)]


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def found(path: Path, text: str) -> list[Reading]:
    path.write_text(text)
    assert sniff(text.encode(), path.name)
    return list(read(path))


@pytest.mark.parametrize("text", [lines(*ROWS), json.dumps(ROWS, indent=1), "\ufeff" + lines(*ROWS)])
def test_objects_are_rows_of_a_table(tmp_path: Path, text: str) -> None:
    (reading,) = found(tmp_path / "metrics.jsonl", text)
    assert reading.series is not None and not reading.warnings
    assert reading.series.values_s == pytest.approx([0.5, 0.51, 0.52, 0.53, 0.54, 0.55])
    assert reading.series.steps == (0, 1, 2, 3, 4, 5)


def test_settings_in_front_and_damage_in_the_middle_cost_no_step(tmp_path: Path) -> None:
    text = lines({"config": {"lr": 0.1}}, *ROWS[:3]) + '{"_step": 3, "tra\n' + lines(*ROWS[4:])
    (reading,) = found(tmp_path / "metrics.jsonl", text)
    assert reading.series is not None and reading.series.steps == (0, 1, 2, 4, 5)
    assert reading.warnings == ("metrics.jsonl: lines that are no JSON object are left out: 1",)


def test_ranks_and_their_phases_are_told_apart(tmp_path: Path) -> None:
    rows = [
        {
            "rank": rank,
            "step": step,
            "step_time": 0.5,
            "timers": {"forward_ms": 100.0 + rank, "backward_ms": 200},
        }
        for step in range(4)
        for rank in range(3)
    ]
    readings = found(tmp_path / "metrics.json", lines(*rows))
    assert [one.series.name for one in readings if one.series] == [
        f"metrics/rank {rank}" for rank in range(3)
    ]
    ranks = [one.records for one in readings if one.series is None]
    assert [one.layout.rank for one in ranks] == [0, 1, 2]
    assert ranks[2].phases["dur_ns"][0] == 102_000_000


@pytest.mark.parametrize(
    "text",
    [
        lines({"ts": 1.0, "level": "info", "msg": "step 3"}),
        lines({"step": 3, "loss": 2.5}),
        json.dumps({"traceEvents": [{"name": "step", "ts": 1, "dur": 2}]}),
        json.dumps([{"name": "step", "ph": "X", "ts": 1, "dur": 2}]),
        "[{",
        "{",
        "[" * 100_000,
        '{"step":' * 50_000,
    ],
)
def test_what_tells_no_step_or_no_time_is_none(text: str) -> None:
    assert not sniff(text.encode(), "x.json")


def test_a_list_that_is_cut_off_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(ROWS)[:-9])
    reader = reader_for(path.read_bytes(), path.name)
    assert reader is not None
    with pytest.raises(ValueError, match="damaged JSON"):
        list(reader.read(path))
