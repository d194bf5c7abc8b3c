"""Short recordings: the steps vote, and few steps only tell of gross things."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.lone import CHANCE, repeats, stands_out
from argus.api.offline.files import analyse
from argus.api.report import Report
from argus.collectors.job import join
from argus.collectors.readers import Reading
from argus.collectors.records.events import DTYPES, RankRecords
from argus.evals.simulator.job import QUIET, Fault, Job
from argus.evals.simulator.simulate import simulate

RUN_QUEUE_SEEN = (5, 30)
"""Lengths at which the host's counters, read every two seconds, show enough of the lost time in the run queue."""


def short(*, kind: str = "", steps: int = 12, seed: int = 0, ranks: int = 8) -> Report:
    """The verdict on a recording of a few steps in which rank 3 is slow from the start."""
    job = Job(ranks=ranks, steps=steps + 3, gpu=kind == "compute", noise=QUIET, step_s=0.1)
    faults = [Fault(kind=kind, ranks=(3,), severity=1.3)] if kind else []
    records = simulate(job, faults, rng=np.random.default_rng(seed)).records
    return analyse(join([Reading(records=one, source="x") for one in records]), now_s=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault_class"),
    [("compute", "compute.slow"), ("starved", "host.cpu_starved"), ("data", "data.slow_loader")],
)
@pytest.mark.parametrize("steps", [5, 12, 30])
def test_a_slow_rank_is_found_without_history(kind: str, fault_class: str, steps: int) -> None:
    report = short(kind=kind, steps=steps)
    assert [(i.cause.fault_class, i.cause.suspects) for i in report.incidents] == [(fault_class, (3,))]
    told_by_host = {"thread_run_delay_ratio"} & {e.name for e in report.incidents[0].cause.evidence}
    confirmed = kind == "starved" and steps in RUN_QUEUE_SEEN
    assert not confirmed or told_by_host
    assert report.diagnosis["verdict"] == ("CONFIRMED" if confirmed else "LIKELY"), (
        "one recording confirms nothing"
    )


@pytest.mark.slow
@pytest.mark.parametrize("steps", [5, 12, 30])
def test_healthy_short_recordings_are_silent(steps: int) -> None:
    found = [report for seed in range(6) if (report := short(steps=steps, seed=seed)).incidents]
    assert not found


def test_equal_ranks_rarely_repeat() -> None:
    rng = np.random.default_rng(2)
    for steps, ranks in ((8, 2), (6, 4), (20, 8), (10, 64)):
        hits = 0
        for _ in range(400):
            named = repeats(rng.normal(size=(steps, ranks)))
            assert named is not None
            hits += bool(named.any())
        assert hits <= 400 * CHANCE * 3


def test_too_few_steps_cannot_repeat() -> None:
    assert repeats(np.zeros((3, 4))) is None
    assert repeats(np.zeros((50, 1))) is None
    assert repeats(np.full((9, 4), np.nan)) is None


def test_of_equal_ranks_none_is_the_largest() -> None:
    excess = np.zeros((12, 4))
    excess[3, 0] = 5.0
    named = repeats(excess)
    assert named is not None
    assert not named.any()


def test_renaming_ranks_renames_the_answer() -> None:
    rng = np.random.default_rng(4)
    excess = rng.normal(size=(12, 6))
    excess[:, 2] += 5
    order = rng.permutation(6)
    before, after = repeats(excess), repeats(excess[:, order])
    assert before is not None and after is not None
    assert before.tolist() == [False, False, True, False, False, False]
    assert after.tolist() == before[order].tolist()


def test_one_step_needs_a_gross_excess() -> None:
    classes = np.zeros(4, np.int64)
    values = np.array([[1.0], [1.0], [1.2], [1.0]])
    share = np.array([0.0, 0.0, 0.2, 0.0])
    slight = stands_out(values, classes, deviation=np.log(values[:, 0]), share=share)
    assert not slight.any()
    values[2] = 2.0
    gross = stands_out(values, classes, deviation=np.log(values[:, 0]), share=share)
    assert gross.tolist() == [False, False, True, False]


def few_steps(*, steps: int, severity: float = 1.0, move_ns: int = 0) -> Report:
    """The verdict on a recording of only `steps` usable steps, whose rank 3 is slow, or works longer at forward by so
    much, shorter at backward, and enters its calls half a millisecond after the others."""
    job = Job(ranks=4, steps=steps + 3, noise=QUIET, step_s=0.1)
    faults = [Fault(kind="starved", ranks=(3,), severity=severity)] if severity > 1 else []
    records = [last_of(one, steps) for one in simulate(job, faults, rng=np.random.default_rng(0)).records]
    names = np.array(records[3].names)[records[3].phases["name"]]
    records[3].phases["dur_ns"][names == "forward"] += move_ns
    records[3].phases["start_ns"][names == "backward"] += move_ns
    records[3].phases["dur_ns"][names == "backward"] -= move_ns
    if move_ns:
        entries = np.stack([one.collectives["entry_ns"] for one in records[:3]])
        records[3].collectives["entry_ns"] = entries.max(axis=0) + 500_000
    return analyse(join([Reading(records=one, source="x") for one in records]), now_s=0.0)


def last_of(records: RankRecords, num_steps: int) -> RankRecords:
    """Only the records of the last steps."""
    first = int(records.steps["step"].max()) - num_steps + 1
    kept = {kind: getattr(records, kind) for kind in DTYPES}
    return replace(records, **{kind: rows[rows["step"] >= first] for kind, rows in kept.items()})


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_in_few_steps_a_long_phase_that_nobody_waits_for_names_nobody(steps: int) -> None:
    report = few_steps(steps=steps, move_ns=50_000_000)
    assert (3,) in {finding.ranks for finding in report.findings if finding.role == "culprit"}
    assert not report.incidents
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_in_few_steps_a_fifth_of_the_step_is_named(steps: int) -> None:
    report = few_steps(steps=steps, severity=1.3)
    assert [incident.cause.suspects for incident in report.incidents] == [(3,)]
