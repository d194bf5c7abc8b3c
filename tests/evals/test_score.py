"""The scorer is scored: scripted answers whose score is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from argus.analytics.incident import Cause, Cost, Incident
from argus.api.cli import build_parser, load, main
from argus.evals import evaluate
from argus.evals.evaluate import dropped_scores, make_report, render
from argus.evals.score import Outcome, Trial, score, summarise
from argus.evals.truth import Truth

TRIAL = Trial(scenario="slow_rank", seed=0, ranks=8, severity=1.5)
TRUTH = Truth(fault_class="compute.slow", ranks=(3,), scope="rank:3", onset_step=64, end_step=150)
LINK = Truth(fault_class="link.slow", ranks=(1, 3), scope="group:dp/1", onset_step=64, end_step=150)
STOP = Truth(fault_class="stop.hang", ranks=(3,), scope="rank:3", onset_step=64)


def incident(
    fault_class: str = "compute.slow",
    *,
    suspects: tuple[int, ...] = (3,),
    window: int = 7,
    onset: int = 64,
    scope: str = "rank:3",
    group: str | None = None,
    verdict: str = "CONFIRMED",
    status: str = "resolved",
) -> Incident:
    cause = Cause(fault_class=fault_class, verdict=verdict, suspects=suspects, scope=scope, group=group)
    cost = Cost(s_per_step=0.1, share_of_step=0.2, gpu_hours_so_far=1, gpu_hours_per_day=1, method="scripted")
    return Incident(
        run="train", attempt=0, status=status, severity="warning", cause=cause, onset_step=onset,
        end_step=None, opened_window=window, last_window=window, cost=cost,
    )  # fmt: skip


def outcome(*incidents: Incident, truth: Truth = TRUTH) -> Outcome:
    told = [float(20 + i) for i in range(len(incidents))]
    return score(TRIAL, [truth], incidents=incidents, told_s=told, onset_s=10.0, window_steps=10)


def test_the_right_answer_scores_in_full() -> None:
    got = outcome(incident())
    assert got.ok and got.found and got.right_class and got.resolved
    assert (got.delay_windows, got.delay_s, got.num_false) == (1, 10.0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        incident(suspects=(4,), scope="rank:4"),
        incident(suspects=(3, 4)),
        incident(suspects=()),
        incident(window=4, onset=40),
        incident(onset=155, window=17),
    ],
)
def test_others_or_another_time_is_a_false_incident_and_a_miss(wrong: Incident) -> None:
    got = outcome(wrong)
    assert not got.found and got.num_false == 1 and not got.ok


def test_what_was_told_before_the_onset_is_false() -> None:
    got = score(TRIAL, [TRUTH], incidents=[incident()], told_s=[9.0], onset_s=10.0, window_steps=10)
    assert got.num_false == 1 and not got.found


def test_the_wrong_class_at_the_right_rank_is_found_but_not_ok() -> None:
    got = outcome(incident("host.gc"))
    assert got.found and not got.right_class and not got.num_false and not got.ok


def test_a_second_culprit_beside_the_right_one_is_false() -> None:
    got = outcome(incident(), incident(suspects=(5,), scope="rank:5"))
    assert got.right_class and got.num_false == 1 and not got.ok


def test_saying_nothing_is_right_only_when_healthy() -> None:
    assert not outcome().ok
    assert outcome(truth=Truth()).ok
    assert not outcome(incident(), truth=Truth()).ok
    assert outcome(incident(verdict="NO_FAULT"), truth=Truth()).ok


def test_a_path_is_named_by_its_group() -> None:
    named = incident("link.slow", suspects=(1, 3), scope="group:dp/1", group="dp/1")
    other = incident("link.slow", suspects=(0, 2), scope="group:dp/0", group="dp/0")
    assert outcome(named, truth=LINK).ok
    assert outcome(incident("link.slow", suspects=(), scope="group:dp/1"), truth=LINK).ok
    assert outcome(other, truth=LINK).num_false == 1


def test_a_stop_has_no_delay_in_windows() -> None:
    got = outcome(incident("stop.hang", window=5, status="open"), truth=STOP)
    assert got.ok and got.delay_windows is None and got.delay_s == 10.0 and got.resolved is None


def test_scores_add_up() -> None:
    healthy = outcome(truth=Truth())
    crash = Outcome(trial=TRIAL, truth=TRUTH, is_faulty=True, error="ValueError: x")
    row = summarise([outcome(incident()), outcome(incident("host.gc")), outcome(), healthy, crash])
    assert (row.trials, row.ok_ratio, row.recall, row.class_ratio) == (5, 0.4, 0.5, 0.25)
    assert row.precision == 1.0
    assert (row.delay_windows_max, row.resolved_ratio, row.crashed) == (1, 1.0, 1)
    assert summarise([healthy]).recall is None


def test_the_report_shows_failures_first_and_drops_are_named() -> None:
    report = make_report("smoke", [outcome(incident()), outcome()], elapsed_s=1.0)
    report["dropped"] = dropped_scores(
        report["scenarios"], {"slow_rank": {"recall": 1.0}, "hang": {"recall": 1.0}}
    )
    text = render(report)
    assert text.startswith("FAILED slow_rank") and "expected compute.slow rank:3" in text
    assert report["dropped"] == [
        "slow_rank: recall was 1.000, is 0.500",
        "hang: recall was 1.000, is missing",
    ]
    assert not dropped_scores(report["scenarios"], {"slow_rank": {"recall": 0.5, "precision": 1.0}})
    assert json.loads(json.dumps(report))["total"]["trials"] == 2


def test_a_baseline_that_cannot_be_written_is_said_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "run_trial", lambda _: pytest.fail("hours for nothing"))
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[")
    for path in (wrong, tmp_path / "none" / "new.json", tmp_path):
        assert main(["eval", "run", "--smoke", "--jobs", "1", "--write-gate", str(path)]) == 2


def test_the_command_refuses_a_baseline_that_is_none(tmp_path: Path) -> None:
    wrong = tmp_path / "baseline.json"
    wrong.write_text("[]", encoding="utf-8")
    assert main(["eval", "run", "--smoke", "--gate", str(wrong)]) == 2
    assert main(["eval", "run", "--smoke", "--gate", str(tmp_path / "none.json")]) == 2


def test_the_sizes_exclude_each_other() -> None:
    parser = build_parser("eval", load("eval"))
    assert parser.parse_args(["run", "--full"]).full
    with pytest.raises(SystemExit):
        parser.parse_args(["run", "--smoke", "--full"])


def test_what_the_evaluations_are_is_told_without_loading_one() -> None:
    told = (
        "import sys; from argus.api.cli import main\ntry: main(['eval', '--help'])\nexcept SystemExit: pass\n"
    )
    told += (
        "print(*(name for name in sys.modules if name in ('numpy', 'sqlalchemy') or 'argus.evals.' in name))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert "fidelity" in done.stdout and done.stdout.splitlines()[-1] == "argus.evals.actions"
