"""The fidelity study: its yardsticks, its false-alarm count, and that slices come to the same as one go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from argus.evals.study import design
from argus.evals.study.healthy import healthy_job, total
from argus.evals.study.measure import BUDGETED, Condition, Tally, budgeted_flags
from argus.evals.study.report import verdict
from argus.evals.study.run import items, run_study


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


def row(default: float, published: float, *, luck: float, budget: float) -> dict[str, object]:
    return {
        "family": "uniform",
        "count": 20,
        "share": 0.01,
        "ranks": 64,
        "factor": 1.2,
        "f1": {"default": default, "triple": published, BUDGETED: budget},
        "false": {"default": 0, "triple": 3},
        "luck": {"triple": luck},
    }


def test_a_verdict_names_every_condition_that_is_lost_and_why() -> None:
    text = verdict(
        [
            row(1.0, 0.5, luck=0.0, budget=1.0),
            row(0.2, 0.5, luck=0.0, budget=0.9),
            row(0.2, 0.5, luck=0.0, budget=0.1),
            row(0.0, 0.1, luck=0.4, budget=0.1),
            row(0.0, 0.0, luck=1.0, budget=0.0),
        ]
    )
    assert "fails (F1 < 0.9) on 5; the default has the higher F1 on 1 of them" in text
    assert "loses more than 0.01 on 3." in text
    for title in ("Lost, although", "Lost to the budget", "Lost to luck", "Neither finds"):
        (line,) = [one for one in text.splitlines() if one.startswith(title)]
        assert line.endswith("(1):")


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
    book = tmp_path / "book.jsonl"
    assert run_study("smoke", seed=3, book=book, slice_s=0.0) is None
    once = run_study("smoke", seed=3)
    sliced = run_study("smoke", seed=3, book=book)
    again = run_study("smoke", seed=3, book=book, slice_s=0.0)
    assert once is not None and sliced is not None and again is not None
    for part in ("rows", "healthy_rows", "sweep", "surfaces", "healthy"):
        assert once[part] == sliced[part] == again[part]
    assert run_study("smoke", seed=4, book=book, slice_s=0.0) is None
