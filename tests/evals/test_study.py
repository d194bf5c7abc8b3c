"""The fidelity study: its yardsticks, its false-alarm count, and that slices come to the same as one go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.kernels.table import dense
from argus.api.cli import main
from argus.evals.study import design, tables
from argus.evals.study import run as study
from argus.evals.study.families import FAMILIES
from argus.evals.study.healthy import healthy_job, total
from argus.evals.study.measure import (
    BUDGETED,
    LATER,
    NAMED,
    Condition,
    Tally,
    budgeted_flags,
    lead,
    run_condition,
)
from argus.evals.study.report import plateau, verdict
from argus.evals.study.run import items, items_again, run_study, study_so_far


def test_every_item_of_every_size_has_a_name_of_its_own() -> None:
    for size in ("smoke", "default", "full"):
        names = [item.name for item in items(size, seed=0)]
        assert len(set(names)) == len(names) > 0


def test_hits_of_blind_flags_are_luck_and_others_are_not() -> None:
    sick = np.arange(64) < 16
    all_right, blind = Tally(), Tally()
    rng = np.random.default_rng(0)
    for _ in range(5):
        all_right.add(sick, sick)
        blind.add(rng.permutation(sick), sick)
    assert all_right.luck < 1e-9
    assert blind.luck > 0.05


def test_the_yardstick_of_the_same_budget_sees_a_slow_mean_and_no_healthy_one() -> None:
    rng = np.random.default_rng(0)
    windows = [np.exp(0.03 * rng.normal(size=(64, 200))) for _ in range(3)]
    assert not budgeted_flags(windows).any()
    for window in windows:
        window[5] *= 1.1
    assert budgeted_flags(windows).nonzero()[0].tolist() == [5]


def row(
    default: float, published: float, *, luck: float, budget: float, count: int = 20
) -> dict[str, object]:
    return {
        "family": "uniform",
        "count": count,
        "share": 0.01,
        "ranks": 64,
        "factor": 1.2,
        "f1": {"default": default, "triple": published, BUDGETED: budget},
        "false": {"default": 0, "triple": 3},
        "luck": {"triple": luck},
        "seeds": 4,
        "first_seed": 7,
        "windows": 3,
        "blind_f1": 0.02,
        "lead": (-0.1, 0.1),
    }


def test_a_verdict_names_every_condition_that_is_lost_and_why() -> None:
    text = verdict(
        [
            row(1.0, 0.5, luck=0.0, budget=1.0, count=1),
            row(0.2, 0.5, luck=0.0, budget=0.9, count=2),
            row(0.2, 0.5, luck=0.0, budget=0.1, count=3),
            row(0.0, 0.1, luck=0.4, budget=0.1, count=4),
            row(0.0, 0.0, luck=1.0, budget=0.0, count=5),
            row(0.0, 0.3, luck=0.0, budget=0.1, count=6),
            {**row(0.0, 0.2, luck=0.0, budget=0.9), "family": "tail 0.5 %"},
        ],
        [row(0.9, 0.4, luck=0.0, budget=0.9, count=6)],
    )
    assert "loses more than 0.01 of F1 on 5; 1 of these ran again" in text
    assert "fails (F1 < 0.9) on 7; the default has the higher F1 on 2 of them" in text
    assert "loses more than 0.01 on 4." in text
    titles = (
        "Lost, although",
        "Lost to persistence",
        "Lost to the budget",
        "Lost to luck",
        "Neither",
        "Run again",
    )
    for title in titles:
        (line,) = [one for one in text.splitlines() if one.startswith(title)]
        assert line.endswith("(1):")


def test_a_lost_condition_says_what_more_windows_show() -> None:
    lost = row(0.2, 0.5, luck=0.0, budget=0.1)
    watched = {**lost, "windows": 32, "f1": {**lost["f1"], NAMED: 0.9}, "false": {**lost["false"], NAMED: 0}}  # type: ignore[dict-item]
    text = verdict([lost], [watched])
    assert "1 of these were watched for 32 windows; by then the default is ahead on 1" in text
    assert "named by the default within 32 windows 0.90 (0 false)" in text
    assert "windows" not in verdict([lost], [lost]).partition("- uniform")[2]


def test_conditions_that_were_lost_run_again_on_fresh_seeds() -> None:
    lost = row(0.2, 0.5, luck=0.0, budget=0.9)
    done: dict[tuple[str, ...], dict[str, object]] = {
        ("rows", "3"): lost,
        ("rows", "4"): row(0.5, 0.5, luck=0.0, budget=0.9),
        ("sweep", "1"): lost,
    }
    (item,) = items_again(done, "full")
    condition = design.again(lost, "full")
    assert item.name == ("again", "3")
    assert (condition.family, condition.count, condition.ranks) == ("uniform", 20, 64)
    assert condition.seeds > 4 and condition.first_seed > 7 + 4
    assert condition.windows == design.LATER_WINDOWS
    large = design.again({**lost, "ranks": 4096}, "full")
    assert large.seeds < condition.seeds and large.windows == 3
    assert design.again({**lost, "count": 2000}, "full").windows == 3


def test_more_windows_change_nothing_but_what_is_said_after_them() -> None:
    short = Condition(family="shape-varying", count=20, ranks=32, factor=3.0, seeds=1)
    now, later = (run_condition(one) for one in (short, replace(short, windows=8)))
    assert LATER not in now.tally and later.tally[LATER].f1 == later.tally[NAMED].f1 == 1.0
    assert now.tally.keys() == later.tally.keys() - {LATER, NAMED}


def test_the_lead_of_a_method_is_sure_when_every_trial_shows_it() -> None:
    better, worse, alike = Tally(), Tally(), Tally()
    sick = np.arange(8) == 1
    for trial in range(20):
        better.add(sick, sick)
        worse.add(sick if trial % 2 else ~sick, sick)
        alike.add(sick if trial % 2 == 0 else ~sick, sick)
    low, high = lead(better, worse)
    assert 0.5 < low < high <= 1.0
    low, high = lead(worse, alike)
    assert low < 0.0 < high
    assert better.f1 == 1.0 and better.blind_f1 == pytest.approx(1 / 8)


def test_ranks_summarised_together_are_as_if_each_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    kernels = [FAMILIES[name].draw(rng, (5, 120)) for name in ("shape-varying", "modes ×1.3", "uniform")]
    for mode in ("paper", "default"):
        together = tables.table_of(kernels, mode=mode)
        monkeypatch.setattr(tables, "PER_CALL", 1)
        alone = tables.table_of(kernels, mode=mode)
        monkeypatch.undo()
        for one, other in zip(dense(together, 0, last=3), dense(alone, 0, last=3), strict=True):
            assert (one.count == other.count).all() and (one.log_p50 == other.log_p50).all()


def test_a_default_is_on_a_plateau_at_its_edge_or_beside_a_better_value() -> None:
    def told(*f1: float) -> str:
        values = zip(("1.5", "2.0", "3.0"), f1, strict=True)
        surface = {value: {"f1_default": 0.0, "f1_paper": one} for value, one in values}
        return plateau("α (published rule)", {"1.0": {"f1_paper": f1[0]}, **surface})

    assert "stands on a plateau" in told(0.8, 0.82, 0.2)
    assert "at the edge of a plateau: 2.0 has 0.30" in told(0.8, 0.3, 0.2)
    assert "**not** on a plateau: 2.0 has 0.95" in told(0.8, 0.95, 0.2)
    assert "no default" in plateau("unheard of", {})


@pytest.mark.slow
def test_a_healthy_job_has_no_flag_and_the_bound_is_that_of_its_length() -> None:
    parts = [healthy_job("smoke", seed=seed) for seed in range(2)]
    counted = total(parts)
    assert counted["flags"] == 0
    assert counted["rank_kernel_windows"] == 2 * parts[0]["tests"]
    assert counted["upper_95"] * counted["rank_kernel_windows"] == pytest.approx(2.9957, rel=1e-3)


@pytest.mark.slow
def test_slices_come_to_the_same_as_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [Condition(family="log-normal", ranks=8, count=20, seeds=1)]
    for name in ("conditions", "healthy_conditions", "sweep", "surface_conditions"):
        monkeypatch.setattr(design, name, lambda size: small)
    monkeypatch.setattr(design, "rules", dict)
    monkeypatch.setattr(design, "ALPHAS", (1.5,))
    monkeypatch.setattr(design, "WINDOW_STEPS", (1,))
    monkeypatch.setattr(study, "EFFECTS", (0.03,))
    book = tmp_path / "book.jsonl"
    assert run_study("smoke", seed=3, book=book, slice_s=0.0) is None
    once = run_study("smoke", seed=3)
    sliced = run_study("smoke", seed=3, book=book)
    again = run_study("smoke", seed=3, book=book, slice_s=0.0)
    assert once is not None and sliced is not None and again is not None
    for part in ("rows", "healthy_rows", "sweep", "surfaces", "healthy"):
        assert once[part] == sliced[part] == again[part]
    assert run_study("smoke", seed=4, book=book, slice_s=0.0) is None
    with book.open("a") as file:
        file.write('{"head": "smoke 3", "na')  # killed while writing
    assert study_so_far("smoke", seed=3, book=book)["rows"] == once["rows"]
    assert run_study("smoke", seed=3, book=book, slice_s=0.0) is not None
    with pytest.raises(ValueError, match="lacks .* pieces"):
        study_so_far("smoke", seed=5, book=book)


@pytest.mark.parametrize("raw", [b"\xde\xad\n", b"{}\n", b"7\n", b"not json\n"])
def test_a_file_that_is_no_book_is_refused_in_one_sentence_and_kept(
    raw: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "book.jsonl"
    book.write_bytes(raw)
    for more in ([], ["--so-far"]):
        assert main(["eval", "fidelity", "--smoke", "--book", str(book), *more]) == 2
        assert "is no book of this study, name another file" in capsys.readouterr().err
    assert book.read_bytes() == raw
