"""The sweep of layouts and faults: every cell is a trial with a truth that fits it, and is played like any other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.evals.evaluate import make_report, render
from argus.evals.score import Outcome, Trial
from argus.evals.simulator.groups import layouts
from argus.evals.suites import SUITES, made, own_size, run_trial
from argus.evals.sweep import HEALTHY, LAYOUTS, cells
from argus.topology.layout import build


def trial(name: str, *, seed: int = 0, severity: float = 1.5) -> Trial:
    return Trial(scenario=name, seed=seed, ranks=own_size(name), severity=severity)


def test_every_layout_meets_every_fault() -> None:
    by_layout: dict[str, set[str]] = {}
    for name in cells():
        layout, _, fault = name.partition("/")
        by_layout.setdefault(layout, set()).add(fault)
    assert len(by_layout) == len(LAYOUTS)
    assert all(
        {HEALTHY, "compute", "data", "copy", "gc", "starved", "two"} < faults for faults in by_layout.values()
    )
    assert by_layout["tp2-pp4-dp4"] >= {"link-tp", "link-dp", "link-pp"}
    assert "link-dp_cp" in by_layout["cp2-dp4"] and "link-ep" in by_layout["ep4-dp8"]
    assert {one.scenario for one in SUITES["sweep"].trials()} == set(cells())


@pytest.mark.parametrize("name", list(cells()))
def test_the_truth_of_a_cell_fits_its_faults(name: str) -> None:
    one, other = made(trial(name)), made(trial(name, seed=1))
    assert one == made(trial(name)) and one != other
    accused = {rank for truth in one.truths for rank in truth.ranks}
    assert {rank for fault in one.faults for rank in fault.ranks} <= accused <= set(range(own_size(name)))
    known = {f"group:{group.id}" for group in build(layouts(one.job)).groups}
    for truth in one.truths if one.faults else ():
        assert truth.scope in known | {f"rank:{rank}" for rank in truth.ranks}
        assert truth.onset_step == one.faults[0].start_step


def test_a_cell_has_one_size() -> None:
    with pytest.raises(ValueError, match="dp4/gc has 4 ranks, got 8"):
        made(Trial(scenario="dp4/gc", seed=0, ranks=8, severity=1.5))


def test_the_report_says_of_every_cell_whether_it_was_right() -> None:
    marks = {"dp4/gc": True, "dp4/link-dp": False, "dp8/gc": True}
    outcomes = [
        replace(Outcome(trial=trial(name), truth=made(trial(name)).truth, is_faulty=True), right_class=ok)
        for name, ok in marks.items()
    ]
    text = render({**make_report("sweep", outcomes, elapsed_s=1.0), "dropped": []})
    rows = [line.split() for line in text.splitlines() if line.startswith(("layout", "dp"))]
    assert rows == [["layout", "gc", "link-dp"], ["dp4", "100%", "0%"], ["dp8", "100%", "–"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp4/two", "pp2-dp2/link-pp"])
def test_a_cell_is_played_and_scored(name: str) -> None:
    assert run_trial(trial(name)).ok
