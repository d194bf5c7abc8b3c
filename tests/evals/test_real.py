"""`argus eval real`: the answers are well-formed, the rules decide, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.analytics.series.period import Period
from argus.api.cli import main
from argus.evals import real
from argus.evals.healthy_series import count_false_jobs
from argus.evals.series_score import score_series, steepest, without_periods

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def test_every_answer_has_a_source_and_rules_that_exist() -> None:
    items = real.expected_answers()
    assert len({item.item for item in items}) == len(items) >= 14
    for item in items:
        assert item.source and item.expected and item.checks
        for check in item.checks:
            real.holds(None, check.rule)  # raises for a rule that is not there


@pytest.mark.parametrize(
    ("value", "rule", "is_kept"),
    [
        ([[9, 14]], {"equals": [[9, 14]]}, True),
        ([[9, 14, 15]], {"equals": [[9, 14]]}, False),
        (1.98, {"near": 1.973, "within": 0.02}, True),
        (None, {"near": 1.973, "within": 0.02}, False),
        (0.006, {"at_most": 0.0056}, False),
        ("126 of 128 ranks are missing", {"has": "126 of"}, True),
        ([7, 1], {"lacks": 1}, False),
        (None, {"lacks": 1}, False),
        ([12, 4907], {"has_near": 4909, "within": 3}, True),
        ([], {"has_near": 4909, "within": 3}, False),
        ([1213, 1700], {"all_near": 1216, "within": 10}, False),
        ([], {"all_near": 1216, "within": 10}, False),
    ],
)
def test_a_rule_decides(value: object, rule: dict[str, Any], is_kept: bool) -> None:
    assert real.holds(value, rule) is is_kept


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="roughly"):
        real.holds(1, {"roughly": 1})


def test_a_place_with_stars_gathers() -> None:
    answer = {"incidents": [{"suspects": [9, 14]}, {"suspects": []}], "exit": 1}
    assert real.values_at(answer, "incidents/*/suspects") == [[9, 14], []]
    assert real.values_at(answer, "incidents/*/suspects/*") == [9, 14]
    assert real.values_at({"incidents": [{"suspects": []}]}, "incidents/*/suspects/*") == []
    assert real.values_at(answer, "exit") == 1
    assert real.values_at(answer, "causes/*/suspects/*") is None
    assert real.values_at(answer, "what_if/slowdown") is None


def test_recordings_that_are_not_there_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "real", "--data", str(tmp_path)]) == 2
    assert "none of the recordings" in capsys.readouterr().err
    folder = tmp_path / "iteration-time"
    folder.mkdir()
    quiet = {"interval": 5, "values": np.random.default_rng(0).normal(2, 0.01, 200).tolist()}
    (folder / "megatron-golden-series.json").write_text(
        json.dumps({"gpt/gpt3_15b_8t_release/golden_values_lts_dgx_a100.json": quiet})
    )
    assert main(["eval", "real", "--data", str(tmp_path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    rows = {row["item"]: row for row in said["items"]}
    assert rows["iteration-time control"]["ok"] and not rows["flight-recorder lock_gil_1st"]["ok"]
    assert rows["flight-recorder lock_gil_1st"]["got"] == "not there"
    assert said["l1_false_alarms"]["num_series"] == 1 and said["l1_false_alarms"]["false"] == 0


def test_the_score_of_series_counts_what_the_rule_says() -> None:
    rng = np.random.default_rng(0)
    quiet, risen, spiky = (rng.normal(2, 0.02, 200) for _ in range(3))
    risen[100:] *= 1.2
    spiky[120] *= 5
    score = score_series({"quiet": quiet, "risen": risen, "spiky": spiky})
    assert [row.event for row in score.rows] == [False, True, False]
    assert (score.incidents, score.found, score.false) == (1, 1, 0)
    assert (score.naive_alarms, score.naive_false) == (1, 1)


def test_what_repeats_is_no_event() -> None:

    saw = np.tile(np.linspace(1, 1.4, 60), 8)
    assert steepest(saw) > 1.05
    period = Period(length=60.0, unit="values", lag=60, strength=1.0)
    assert steepest(without_periods(saw, (period,))) < 1.01


@pytest.mark.slow
def test_healthy_jobs_of_the_simulator_raise_nothing() -> None:
    healthy = count_false_jobs(3)
    assert healthy.steps == 6000 and healthy.false == 0
    assert healthy.at_most_per_100k == pytest.approx(50.0)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the public recordings are not here")
@pytest.mark.long
def test_every_public_recording_gives_its_published_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "real", "--data", str(SHARED), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["item"] for row in said["items"] if not row["ok"]] == []
    assert said["l1_false_alarms"]["false_per_10k_values"] <= 1
