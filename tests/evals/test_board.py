"""The suites behind the scoreboard, what answers take, and the report: chosen by rule, cut in parts, summed as known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import WindowPlan
from argus.evals import answers, evaluate, side_run
from argus.evals.answers import compare
from argus.evals.board_suites import ALL_SUITES, OTHERS, repeated
from argus.evals.days import RANKS, SLICES, Days
from argus.evals.days import scenario as day
from argus.evals.headline import Headline
from argus.evals.html_report import html
from argus.evals.marks import Mark, Spent, lasts
from argus.evals.report_curves import calibration, latency, rungs, trade_off
from argus.evals.scenarios import scenarios
from argus.evals.score import Trial
from argus.evals.scoreboard import CLASS_TRIALS, HEADLINE_TRIALS, Share, ladder, line, took
from argus.evals.scoreboard_page import Made, failure_line, page, promises
from argus.evals.side_by_side import run_all, sliced
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.evals.spent import bytes_per_rank_step
from argus.evals.suites import HELDOUT_SEED
from argus.evals.systems import ALL_TABLES, OURS, reads, systems

MADE = Made(suite="dev", command="argus eval run", date="2026-01-01", machine="2 cores", took="1 s")
SMALL = Headline(first_seed=HELDOUT_SEED, faulty=34, healthy=9, per_class=2, ranks=(8,))
TINY = Trial(scenario="slow_rank", seed=5, ranks=4, severity=1.5)


def a_mark(**changes: object) -> Mark:
    """A faulty trial found at once by one confirmed incident."""
    plain = Mark(
        system=OURS,
        scenario="slow_rank",
        seed=0,
        ranks=8,
        severity=1.5,
        fault_class="compute.slow",
        counted=True,
        said=1,
        false=0,
        noticed=True,
        found=True,
        right_class=True,
        top_1=True,
        right_scope=True,
        onset_off=0,
        delay_windows=1,
        delay_s=10.0,
        exonerated=None,
        unsafe=0,
        abstained=False,
        sure=(("CONFIRMED", True),),
        weights=(0.2,),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


MISSED = a_mark(
    seed=1,
    said=0,
    noticed=False,
    found=False,
    right_class=False,
    top_1=False,
    delay_windows=None,
    sure=(),
    weights=(),
)
CALM = a_mark(
    seed=2,
    fault_class=None,
    counted=False,
    said=0,
    found=False,
    right_class=False,
    delay_windows=None,
    sure=(),
    weights=(),
)
ALARMED = replace(CALM, seed=3, said=1, false=1, sure=(("LIKELY", False),), weights=(0.1,))


@pytest.mark.slow
def test_a_headline_has_enough_of_every_cause_and_as_many_healthy_trials() -> None:
    trials = list(SMALL.trials())
    class_of = {
        one: scenarios()[one.scenario](
            seed=one.seed, ranks=one.ranks, severity=one.severity
        ).truth.fault_class
        for one in trials
    }
    causes = Counter(class_of.values())
    assert causes.pop(None) == 9
    assert sum(causes.values()) >= 34 and min(causes.values()) >= 2
    assert len(set(trials)) == len(trials) and trials[:6] == list(islice(SMALL.trials(), 6))
    drawn = next(one for one in trials if one.scenario == "slow_rank")
    made = scenarios()["slow_rank"](seed=drawn.seed, ranks=drawn.ranks, severity=drawn.severity)
    assert lasts(made.truth, steps=made.job.steps, window_steps=10), (
        "a fault that lasts is taken where there is one"
    )
    assert {class_of[one] is None for one in trials[:2]} == {True, False}, "a part is of both kinds"
    full = OTHERS["headline"]
    assert isinstance(full, Headline) and full.first_seed >= HELDOUT_SEED
    assert (full.faulty, full.healthy, full.per_class) == (HEADLINE_TRIALS, HEADLINE_TRIALS, CLASS_TRIALS)


def test_the_seeds_of_a_headline_can_be_moved_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    played = list[Trial]()

    def play(args: object, suite: str, *, trials: Iterator[Trial]) -> int:
        played.extend(islice(trials, 4))
        return 0

    monkeypatch.setattr(side_run, "run", play)
    main(["eval", "run", "--suite", "headline", "--seed", "7000000"])
    assert [one.seed // 1000 for one in played] == [7000] * 4
    played.clear()
    assert main(["eval", "run", "--suite", "dev", "--seed", "3"]) == 2 and not played
    assert main(["eval", "run", "--suite", "headline", "--seed", "-5"]) == 2 and not played


def test_parts_make_the_whole_and_repeats_have_seeds_of_their_own() -> None:
    trials = [replace(TINY, seed=seed) for seed in range(10)]
    parts = [sliced(trials, f"{number}/4") for number in range(1, 5)]
    assert [one for part in parts for one in part] == trials
    assert len({one.seed for one in repeated(iter(trials), 3)}) == 30
    with pytest.raises(CliError, match="i/n"):
        sliced(trials, "5/4")


def test_healthy_days_are_slices_of_one_clock() -> None:
    trials = list(Days(days=2).trials())
    assert len(trials) == 2 * SLICES and {one.ranks for one in trials} == {RANKS}
    first, second = (day(seed=one.seed, ranks=16) for one in trials[:2])
    lasted_s = first.job.steps * first.job.step_s
    assert second.job.start_s - first.job.start_s == pytest.approx(lasted_s)
    assert lasted_s * SLICES == pytest.approx(86_400) and first.truth.fault_class is None and not first.faults


@pytest.mark.slow
def test_a_crash_of_a_system_is_a_mark_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ArithmeticError("no way out")

    real = systems()
    monkeypatch.setattr(answers, "systems", lambda: {"bocd": crash, "constant": real["constant"]})
    crashed, well = compare(TINY, names=["bocd", "constant"])
    assert crashed.error == "ArithmeticError: no way out" and not crashed.ok and not crashed.found
    assert crashed.spent.wall_s is None and well.spent.windows == 20 and not well.error
    assert well.cost_ratio is not None and 0.2 < well.cost_ratio < 0.6
    sums = line("bocd", [crashed])
    assert (sums.crashed, sums.right) == (1, Share(part=0, whole=1))


def test_a_fault_below_a_per_cent_of_the_step_has_a_row_of_its_own() -> None:
    sums = line(OURS, [a_mark(), replace(MISSED, counted=False, smaller=True)])
    assert (sums.recall, sums.recall_smaller) == (Share(part=1, whole=1), Share(part=0, whole=1))
    assert sums.recall_short.whole == 0


def test_bytes_are_those_of_the_tables_a_system_looks_at() -> None:
    done = simulate(Job(ranks=4, steps=10, kernels=4), rng=np.random.default_rng(1))
    parts = next(done.windows(WindowPlan())).parts
    steps, everything = (bytes_per_rank_step(parts, tables) for tables in ({"steps"}, ALL_TABLES))
    assert steps is not None and everything is not None and 0 < steps < everything
    assert bytes_per_rank_step(parts, ()) == 0.0 and bytes_per_rank_step((), ALL_TABLES) is None
    assert all(reads(name) <= ALL_TABLES for name in systems()) and reads(OURS) == ALL_TABLES


def test_what_answers_took_is_summed_over_those_measured() -> None:
    rows = [Spent(wall_s=2.0, cpu_s=1.0, windows=10, peak_bytes=5, diagnosis_s=s) for s in (1.0, 3.0)]
    sums = took([*rows, Spent()])
    assert (sums.wall_s_per_window, sums.cpu_s_per_window, sums.peak_bytes) == (0.2, 0.1, 5)
    assert sums.diagnosis_s == 2.0 and sums.bytes_per_rank_step is None
    assert took([Spent()]).diagnosis_s_p95 is None


def test_curves_have_the_known_values() -> None:
    marks = [a_mark(), MISSED, CALM, ALARMED]
    assert trade_off(marks) == [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5)], (
        "the firm and costly first, then the false alarm"
    )
    assert latency(marks)[:3] == [(0.0, 0.0), (1.0, 0.5), (2.0, 0.5)]
    assert {name: row[:2] for name, row in calibration(marks).items()} == {
        "CONFIRMED": (0.95, Share(part=1, whole=1)),
        "LIKELY": (0.75, Share(part=0, whole=1)),
    }
    assert rungs(ladder(marks)) == (["1.5×"], {OURS: [(0.0, 0.5)]})
    assert trade_off([]) == [(0.0, 0.0)] and latency([CALM]) == []


def test_the_report_needs_nothing_else_and_shows_failures_first() -> None:
    text = html([a_mark(), replace(MISSED, scenario="<b>&"), CALM, ALARMED], MADE)
    assert text.index("&lt;b&gt;&amp;") < text.index("<svg") and "<b>&" not in text
    assert "src=" not in text and "href=" not in text and "<script" not in text
    assert text.count("<svg") == 6 and "compute.slow †" in text
    assert html([], MADE).count("<h2>") >= 4


def test_a_page_says_how_many_trials_and_what_is_too_few() -> None:
    marks = [a_mark(), MISSED, CALM, ALARMED]
    text = page(marks, MADE)
    assert "2 faulty and 2 healthy trials" in text and "compute.slow †" in text
    assert any("recall ≥ 0.99: 50.0%" in one and "MISSED" in one for one in promises(marks))
    assert "ranks" not in failure_line(replace(MISSED, ranks=0)), "a recording's size is its own"


@pytest.mark.slow
def test_marks_go_to_lines_and_the_report_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Two:
        def trials(self) -> Iterator[Trial]:
            return iter([TINY, replace(TINY, scenario="healthy")])

    monkeypatch.setattr(evaluate, "SUITES", {**ALL_SUITES, "smoke": Two()})
    lines, book = tmp_path / "marks.jsonl", tmp_path / "book.jsonl"
    words = ["eval", "run", "--smoke", "--book", str(book), "--jobs", "1"]
    assert main([*words, "--slice", "1/2", "--html"]) == 0
    assert "1 faulty and 0 healthy trials" in capsys.readouterr().out
    assert main([*words, "--jsonl", str(lines), "--json"]) == 0
    assert [json.loads(one)["ok"] for one in lines.read_text(encoding="utf-8").splitlines()] == [True, True]
    kept = book.read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 2, "the first slice is not played again"
    book.write_text(kept + '{"system": "arg', encoding="utf-8")
    assert main([*words, "--json"]) == 0 and book.read_text(encoding="utf-8") == kept
    assert "cut short" in capsys.readouterr().err
    assert main([*words, "--jsonl", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(
            side_run, "run_all", lambda *_, **__: pytest.fail("nothing is played for a page without a place")
        )
        for option in ("--jsonl", "--scoreboard", "--html", "--book"):
            assert main(["eval", "run", "--smoke", option, str(tmp_path / "none" / "page")]) == 2
    other = tmp_path / "days.jsonl"
    assert main([*words, "--with", str(other)]) == 2
    other.write_text(json.dumps(replace(ALARMED, scenario="healthy_day").to_json()) + "\n", encoding="utf-8")
    assert main([*words, "--with", str(other), "--html"]) == 0
    assert "1 faulty and 2 healthy trials" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*words, "--with", str(book), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"] == alone["systems"], "nothing counts twice"
    assert main(["eval", "run", "--smoke", "--with", str(tmp_path / "none"), "--jobs", "1"]) == 2


def test_a_file_that_is_no_book_is_left_as_it_is(tmp_path: Path) -> None:
    for content in (b"a line\nand one that has no end", b"\xff\xfe\n\x00", b"not a line"):
        other = tmp_path / "other"
        other.write_bytes(content)
        with pytest.raises(CliError, match="no book of marks"):
            run_all([TINY], names=["constant"], book=other)
        assert other.read_bytes() == content
