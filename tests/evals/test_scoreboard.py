"""The scoreboard is scored: scripted systems whose sums are known, and simple rules that do what they say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.finding import Finding
from argus.analytics.incident import Cause, Cost, Incident
from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.evals import suites
from argus.evals.answers import compare
from argus.evals.marks import Mark, from_json, mark
from argus.evals.rates import wilson
from argus.evals.score import Outcome, Trial, score
from argus.evals.scoreboard import Share, delays, ladder, line, lines, matrix
from argus.evals.scoreboard_page import Made, page, render
from argus.evals.side_by_side import chosen, read_book
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.evals.suites import HELDOUT_SEED, SUITES
from argus.evals.systems import OURS, systems
from argus.evals.systems._seen import Seen, Suspicion, incidents_of, watch
from argus.evals.truth import Truth

TRIAL = Trial(scenario="slow_rank", seed=0, ranks=8, severity=1.5)
TRUTH = Truth(
    fault_class="compute.slow",
    ranks=(3,),
    scope="rank:3",
    onset_step=64,
    end_step=180,
    exonerated=("link.slow",),
)
CALM = Truth()
MADE = Made(suite="dev", command="argus eval run", date="2026-01-01", machine="2 cores", took="1 s")


def incident(
    fault_class: str = "compute.slow", *, rank: int = 3, verdict: str = "CONFIRMED", share: float = 0.2
) -> Incident:
    cause = Cause(
        fault_class=fault_class, verdict=verdict, suspects=(rank,), scope=f"rank:{rank}", share_of_step=share
    )
    cost = Cost(
        s_per_step=0.1, share_of_step=share, gpu_hours_so_far=1, gpu_hours_per_day=1, method="scripted"
    )
    return Incident(
        run="train", attempt=0, status="open", severity="warning", cause=cause, onset_step=66,
        end_step=None, opened_window=7, last_window=7, cost=cost,
    )  # fmt: skip


def marked(*incidents: Incident, truth: Truth = TRUTH, levels: tuple[str, ...] = ()) -> Mark:
    told = [20.0 + i for i in range(len(incidents))]
    outcome = score(TRIAL, [truth], incidents=incidents, told_s=told, onset_s=10.0, window_steps=10)
    findings = [
        Finding(run="train", attempt=0, window=7, level=level, detector="d", kind="self_time", role="culprit", ranks=(3,))
        for level in levels
    ]  # fmt: skip
    return mark(
        "scripted",
        replace(outcome, steps=200),
        truths=[truth],
        incidents=incidents,
        findings=findings,
        window_steps=10,
        rank_s=8 * 100.0,
    )


def share(part: int, whole: int) -> Share:
    return Share(part=part, whole=whole)


def test_a_perfect_system_scores_in_full() -> None:
    got = line("scripted", [marked(incident()), marked(truth=CALM)])
    assert got.right == share(2, 2)
    assert got.precision == got.recall == got.top_1 == got.right_class == got.right_scope == share(1, 1)
    assert (got.f1, got.unsafe, got.false_healthy, got.onset_off_median) == (1.0, 0, 0, 2)
    assert got.exonerated == share(1, 1) and got.abstained == share(0, 1)
    assert got.brier == 0.0 and got.calibration["CONFIRMED"] == share(1, 1)


def test_a_silent_system_is_right_of_healthy_jobs_alone() -> None:
    got = line("scripted", [marked(), marked(truth=CALM)])
    assert (got.right, got.recall, got.noticed, got.abstained) == (
        share(1, 2),
        share(0, 1),
        share(0, 1),
        share(1, 1),
    )
    assert got.precision.ratio is None and got.f1 is None and got.brier is None


def test_a_shotgun_finds_all_and_pays_for_it() -> None:
    shots = [incident(rank=rank, share=0.1 * (rank == 5)) for rank in range(8)]
    got = line("scripted", [marked(*shots), marked(*shots, truth=CALM)])
    assert got.recall == share(1, 1) and got.precision == share(1, 16) and got.right == share(0, 2)
    assert got.top_1 == share(0, 1), "the costliest is rank 5"
    assert got.unsafe == 15 and got.false_healthy == 8 and got.healthy_quiet == share(0, 1)
    assert got.per_day == pytest.approx(8 / (800 / 86_400 / 10_000))
    assert got.per_day_upper is not None and got.per_day is not None and got.per_day_upper > got.per_day


def test_the_tempting_class_is_no_exoneration_and_an_unsure_one_not_unsafe() -> None:
    tempted = marked(incident("link.slow"))
    assert tempted.exonerated is False and not tempted.found and tempted.unsafe == 0
    assert marked(incident(rank=4)).unsafe == 1
    unsure = marked(incident(rank=4, verdict="INCONCLUSIVE"))
    assert unsure.unsafe == 0 and unsure.abstained and unsure.false == 1


def test_the_wrong_class_costs_the_class_only() -> None:
    got = marked(incident("host.gc"))
    assert got.found and got.top_1 and got.right_scope and not got.right_class and not got.ok


def test_faults_shorter_than_ten_windows_and_stops_are_told_apart() -> None:
    assert marked(incident()).counted
    assert not marked(incident(), truth=replace(TRUTH, end_step=163)).counted
    assert marked(truth=Truth(fault_class="stop.hang", ranks=(3,), scope="rank:3", onset_step=190)).counted
    got = line("scripted", [marked(incident()), marked(truth=replace(TRUTH, end_step=163))])
    assert (got.recall, got.recall_short) == (share(1, 1), share(0, 1))


def test_a_crash_is_a_miss_and_never_quiet() -> None:
    crashed = [
        mark("scripted", Outcome(trial=TRIAL, truth=truth, is_faulty=truth is TRUTH, error="ValueError: x"),
             truths=[truth], window_steps=10, rank_s=1.0)
        for truth in (TRUTH, CALM)
    ]  # fmt: skip
    got = line("scripted", crashed)
    assert got.right == share(0, 2) and got.crashed == 2 and got.healthy_quiet == share(0, 1)
    assert got.exonerated == share(0, 1) and got.recall_short.part == got.recall.part == 0


def test_levels_and_severities_have_tables() -> None:
    seen = replace(marked(incident(), levels=("L1", "L2")), system=OURS)
    blind = replace(marked(), system=OURS, severity=1.1)
    row = matrix([seen, blind])["compute.slow"]
    assert (row["L1"], row["L3"], row["any level"], row["found"]) == (
        share(1, 2),
        share(0, 2),
        share(1, 2),
        share(1, 2),
    )
    assert ladder([seen, blind])[OURS] == {"1.1×": share(0, 1), "1.5×": share(1, 1)}


def test_windows_to_the_incident_are_told_by_class_with_what_takes_longest() -> None:
    seen = [
        replace(marked(incident()), system=OURS, scenario=name, delay_windows=late)
        for name, late in (("slow_rank", 1), ("slow_drift", 4), ("low_clock", None))
    ]
    (found,) = delays([*seen, replace(seen[1], fault_class=None), replace(seen[1], system="bocd")]).values()
    assert (found.trials, found.median, found.most, found.slowest) == (2, 2.5, 4, "slow_drift")
    assert "| compute.slow | 2 | 2.5 | 4 | slow_drift |" in page(seen, MADE)


def test_the_interval_is_wilsons() -> None:
    assert wilson(0, 0) is None
    low, high = wilson(8, 10) or (0, 0)
    assert (round(low, 3), round(high, 3)) == (0.49, 0.943)
    assert (wilson(0, 30) or (1,))[0] == 0.0


def test_the_page_shows_failures_first_and_says_what_is_missed() -> None:
    marks = [replace(one, system=OURS) for one in (marked(), marked(truth=CALM))]
    text = page(marks, MADE)
    assert text.index("FAILED slow_rank") < text.index("## Side by side")
    assert re.search(r"recall ≥ 0.99: 0.0% .* MISSED", text) and "too few" in text
    assert render(marks).startswith("FAILED slow_rank")
    calm = page(marks[1:], MADE)
    assert "recall ≥ 0.99: – — not measured" in calm and "FAILED" not in calm


def seen_of(*faults: Fault, job: Job | None = None) -> tuple[Seen, ...]:
    made = job or Job(ranks=8, steps=90, step_s=0.5)
    return watch(simulate(made, faults, rng=np.random.default_rng(1)))


def accused(name: str, seen: tuple[Seen, ...]) -> list[Suspicion]:
    return list(systems()[name](seen, rng=np.random.default_rng(2)))


GROSS = Fault(kind="compute", ranks=(3,), start_step=50, severity=2.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mad_phases", "relative_score", "paper_mode"])
def test_rules_on_phases_name_the_gross_straggler(name: str) -> None:
    told = [one for one in accused(name, seen_of(GROSS)) if one.ranks and one.at >= 5]
    assert told and {one.ranks for one in told if one.fault_class == "compute.slow"} == {(3,)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["twice_median", "bocd"])
def test_rules_on_step_times_name_the_run_and_no_rank(name: str) -> None:
    told = accused(name, seen_of(GROSS))
    assert told and {(one.ranks, one.fault_class, one.scope) for one in told} == {
        ((), "step.slower", "run:train")
    }
    assert min(one.at for one in told) >= 5
    assert not accused(name, seen_of())


@pytest.mark.slow
def test_the_slowest_collective_is_a_waiting_ranks() -> None:
    told = [one for one in accused("slowest_collective", seen_of(GROSS)) if one.at >= 5]
    assert all(one.ranks != (3,) for one in told)


@pytest.mark.slow
def test_host_counters_name_who_waits_for_a_cpu() -> None:
    starved = Fault(kind="starved", ranks=(3,), start_step=30, severity=2.0)
    told = accused("host_similarity", seen_of(starved))
    assert {one.ranks for one in told if one.at >= 5} == {(3,)}


@pytest.mark.slow
def test_what_is_said_again_is_one_incident() -> None:
    seen = seen_of(job=Job(ranks=4, steps=120))
    said = [Suspicion(at=at, fault_class="compute.slow", ranks=(1,)) for at in (2, 3, 6, 11)]
    incidents, told_s = incidents_of(said, seen)
    assert [(i.opened_window, i.last_window) for i in incidents] == [(2, 6), (11, 11)]
    assert told_s == (seen[2].now_s, seen[11].now_s)


@pytest.mark.slow
def test_every_system_answers_on_one_trial_and_the_book_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from argus.evals import evaluate, side_by_side
    from argus.evals.suites import Suite

    tiny = Suite(ranks=(4,), severities=(1.5,), seeds=(5,), names=("slow_rank",))
    monkeypatch.setattr(evaluate, "SUITES", {**SUITES, "smoke": tiny})
    book, board = tmp_path / "book.jsonl", tmp_path / "board.md"
    words = ["eval", "run", "--smoke", "--system", "all", "--book", str(book), "--json", "--jobs", "1"]
    assert main([*words, "--scoreboard", str(board)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["system"] for row in report["systems"]] == [OURS, *systems()]
    assert all(row["crashed"] == 0 for row in report["systems"])

    def again(*_: object, **__: object) -> None:
        raise AssertionError("a trial in the book is run again")

    monkeypatch.setattr(side_by_side, "compare", again)
    assert main(words) == 0
    assert board.read_text(encoding="utf-8").startswith("# Scoreboard")
    assert [from_json(one.to_json()) for one in read_book(book)] == read_book(book)


def test_systems_are_chosen_by_name_ours_first() -> None:
    assert chosen(["bocd", OURS]) == (OURS, "bocd")
    assert chosen(["all"]) == (OURS, *systems())
    with pytest.raises(CliError, match="no system 'best'"):
        chosen(["best"])


@pytest.mark.parametrize(
    "words",
    [
        ["--system", "all", "--gate", "x"],
        ["--html", "x", "--gate", "x"],
        ["--system", "best"],
        ["--slice", "0/3"],
        ["--slice", "half"],
        ["--repeats", "0"],
    ],
)
def test_what_does_not_go_together_is_refused(words: list[str]) -> None:
    assert main(["eval", "run", "--smoke", *words]) == 2


def test_a_book_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "book"
    path.write_text('{"system": 1}\n', encoding="utf-8")
    with pytest.raises(CliError, match="no book"):
        read_book(path)


def test_the_board_has_a_fifth_of_healthy_trials_and_seeds_of_its_own() -> None:
    trials = list(SUITES["board"].trials())
    assert sum(one.scenario in suites.CALM for one in trials) * 5 >= len(trials)
    assert min(one.seed for one in trials) >= HELDOUT_SEED
    assert not {one.seed for one in trials} & set(SUITES["heldout"].seeds)


@pytest.mark.slow
def test_our_row_is_what_the_plain_run_scores() -> None:
    from argus.evals.suites import run_trial

    (ours,) = compare(TRIAL, names=[OURS])
    plain = run_trial(TRIAL)
    assert (ours.ok, ours.found, ours.said, ours.delay_windows) == (
        plain.ok, plain.found, plain.num_incidents, plain.delay_windows,
    )  # fmt: skip
    assert lines([ours])[0].system == OURS
