"""Faults put into recordings: nothing moves without one, everything that waits moves with one, and the truth is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.window import Floats
from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.collectors.records.events import RankRecords
from argus.evals.score import Trial
from argus.evals.semi import kernels, series
from argus.evals.semi.jobs import cost_ratio, stretches, truth_of
from argus.evals.semi.kernels import _moved
from argus.evals.semi.retime import Slow, Warp, retimed
from argus.evals.semi.suite import SOURCES, Semi, compare, lacking, takes
from argus.evals.side_by_side import chosen
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.segments import BACKWARD_SHARE, FORWARD_SHARE
from argus.evals.simulator.simulate import simulate
from argus.evals.systems import OURS, hta, peers, systems

GROSS_SEED = 2
"""One whose fault is in everything a rank does."""

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(scope="module", params=["data parallel", "pipeline"])
def recorded(request: pytest.FixtureRequest) -> tuple[RankRecords, ...]:
    """A small healthy job on one clock."""
    plain = Job(ranks=4, steps=6, kernels=3)
    job = replace(plain, pp=2, micro_batches=4) if request.param == "pipeline" else plain
    return simulate(job, rng=np.random.default_rng(3)).records


def own_work(one: RankRecords, *, factor: float, first_step: int = 0) -> Slow:
    rows = one.phases
    names = np.array(one.names)[rows["name"]]
    chosen = np.isin(names, ["forward", "backward"]) & (rows["depth"] == 0) & (rows["step"] >= first_step)
    return stretches(rows, chosen, factor=factor)


def ends(records: tuple[RankRecords, ...]) -> Floats:
    return np.array([one.steps["end_ns"] for one in records], np.float64)


def test_without_a_fault_nothing_moves(recorded: tuple[RankRecords, ...]) -> None:
    same, _ = retimed(recorded, {})
    for before, after in zip(recorded, same, strict=True):
        for table in ("steps", "phases", "collectives", "kernels", "events"):
            assert np.array_equal(getattr(before, table), getattr(after, table)), table


def test_a_slow_rank_holds_up_all_from_its_onset_on(recorded: tuple[RankRecords, ...]) -> None:
    one = recorded[1]
    moved, warps = retimed(recorded, {1: own_work(one, factor=2.0, first_step=3)})
    before, after = ends(recorded), ends(moved)
    assert np.array_equal(before[:, :3], after[:, :3]), "what was before the fault is as it was"
    assert (after[:, -1] > before[:, -1]).all(), "everybody ends later"
    assert cost_ratio(recorded, moved, onset_step=3) > 0.1
    assert (np.diff(warps[1].new_ns) >= 0).all()
    for ranks in moved:
        rows = ranks.collectives
        assert (rows["end_ns"] >= rows["entry_ns"]).all() and (ranks.phases["wait_ns"] >= 0).all()
        assert (ranks.phases["wait_ns"] <= ranks.phases["dur_ns"]).all()


@pytest.mark.parametrize("pp", [1, 2])
def test_the_job_becomes_what_the_simulator_makes_of_the_same_fault(pp: int) -> None:
    job = Job(ranks=4, steps=8, pp=pp, micro_batches=4 if pp > 1 else 1, gc_every=0)
    healthy = simulate(job, rng=np.random.default_rng(5)).records
    fault = Fault(kind="compute", ranks=(2,), start_step=4, severity=1.5)
    truth = ends(simulate(job, [fault], rng=np.random.default_rng(5)).records)
    factor = 1 + (fault.severity - 1) / (FORWARD_SHARE + BACKWARD_SHARE)
    moved, _ = retimed(healthy, {2: own_work(healthy[2], factor=factor, first_step=4)})
    added, wanted = (end[:, -1] - ends(healthy)[:, -1] for end in (ends(moved), truth))
    assert added == pytest.approx(wanted, rel=0.02)


def test_a_larger_fault_costs_no_less(recorded: tuple[RankRecords, ...]) -> None:
    costs = [
        cost_ratio(recorded, retimed(recorded, {2: own_work(recorded[2], factor=f)})[0], onset_step=0)
        for f in (1.0, 1.1, 1.5, 3.0)
    ]
    assert costs[0] == 0.0 and costs == sorted(costs) and costs[-1] > 0.5


def test_the_slow_rank_waits_less_and_the_others_more(recorded: tuple[RankRecords, ...]) -> None:
    moved, _ = retimed(recorded, {0: own_work(recorded[0], factor=2.0)})
    more = [
        int(a.phases["wait_ns"].sum() - b.phases["wait_ns"].sum())
        for a, b in zip(moved, recorded, strict=True)
    ]
    assert min(more[1:]) > 0 and more[0] < min(more[1:])


def test_calls_in_another_order_on_two_ranks_end_all_the_same(recorded: tuple[RankRecords, ...]) -> None:
    one = recorded[0]
    rows = one.collectives.copy()
    rows[["entry_ns", "end_ns"]] = rows[["entry_ns", "end_ns"]][::-1]
    moved, _ = retimed((replace(one, collectives=rows), *recorded[1:]), {})
    assert len(moved) == len(recorded)


def test_stretches_are_disjoint(recorded: tuple[RankRecords, ...]) -> None:
    slow = stretches(recorded[0].phases, np.ones(len(recorded[0].phases), np.bool_), factor=1.5)
    assert (slow.start_ns[1:] > slow.end_ns[:-1]).all() and len(slow.start_ns) > 1
    none = stretches(recorded[0].phases, np.zeros(len(recorded[0].phases), np.bool_), factor=1.5)
    assert len(none.start_ns) == 0


def test_events_of_a_trace_move_and_what_has_no_time_stays() -> None:
    warp = Warp(old_ns=np.array([0.0, 100e3, 200e3]), new_ns=np.array([0.0, 100e3, 300e3]), base_ns=0)
    moved = _moved([{"ph": "M"}, {"ph": "X", "ts": 50, "dur": 100}, {"ph": "s", "ts": 300.0}], warp)
    assert moved == [{"ph": "M"}, {"ph": "X", "ts": 50.0, "dur": 150.0}, {"ph": "s", "ts": 400.0}]


def test_severity_one_is_the_recording_as_it_is() -> None:
    assert truth_of(3, onset_step=10, severity=1.0).fault_class is None
    assert truth_of(3, onset_step=10, severity=1.05).ranks == (3,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two quiet series, and one that the rule takes for an event."""
    rng = np.random.default_rng(4)
    made = {name: rng.normal(2.0, 0.01, 120) for name in ("a", "b", "risen")}
    made["risen"][60:] *= 1.3
    (tmp_path / series.FOLDER).mkdir()
    content = {name: {"interval": 1, "values": values.tolist()} for name, values in made.items()}
    (tmp_path / series.FOLDER / "some.json").write_text(json.dumps(content))
    return tmp_path


def test_a_risen_series_is_found_and_a_quiet_one_is_not(folder: Path) -> None:
    assert set(series._quiet(folder)) == {"a", "b"}
    names = [OURS, "twice_median"]
    for seed in range(2):
        trial = Trial(scenario=series.NAME, seed=seed, ranks=0, severity=1.5)
        ours, simple = series.compare(trial, names=names, data=folder)
        assert ours.ok and ours.counted and ours.spent.wall_s and not simple.found
        calm = series.compare(replace(trial, severity=1.0), names=names, data=folder)
        assert all(one.ok and one.fault_class is None for one in calm)


def test_sources_that_are_not_there_are_skipped_with_a_sentence(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(lacking(folder)) == set(SOURCES) - {series.NAME}
    empty = tmp_path_factory.mktemp("empty")
    assert main(["eval", "run", "--suite", "semi", "--data", str(empty)]) == 2
    said = capsys.readouterr().err
    assert "semi_kernels is skipped" in said and "name their folder by --data" in said


def test_a_recording_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    for name, content in (
        (kernels.ARCHIVE, b"garbage"),
        ("iteration-time/a.json", b'{"a": {"values": [1, 2]}}'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for name in (kernels.NAME, series.NAME):
        with pytest.raises(CliError, match="cannot be read|no series"):
            compare(Trial(scenario=name, seed=0, ranks=0, severity=1.5), names=[OURS], data=tmp_path)


def test_a_trial_goes_to_whoever_can_read_it() -> None:
    assert [name for name in systems() if takes(series.NAME, name)] == ["bocd", "twice_median"]
    assert takes(kernels.NAME, "hta") and not takes("semi_phases", "hta") and not takes("slow_rank", "hta")
    trials = list(Semi(faulty={kernels.NAME: 12}, controls={kernels.NAME: 1}).trials())
    assert len(set(trials)) == 13 and sum(one.severity == 1.0 for one in trials) == 1


def test_a_peer_that_is_not_installed_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hta, "why_not", lambda: hta.NOT_THERE)
    with pytest.raises(CliError, match="pip install HolisticTraceAnalysis"):
        chosen(["hta"], reads_traces=True)
    assert "hta" not in chosen(["all"], reads_traces=True)
    assert "skipped: HolisticTraceAnalysis" in capsys.readouterr().err
    with pytest.raises(CliError, match="--suite semi"):
        chosen(["hta"])
    assert set(peers()) == {"hta"} and "hta" not in systems()


def test_a_peer_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'noise'; echo '[2]'\n")
    fake.chmod(0o755)
    monkeypatch.setenv(hta.PYTHON, str(fake))
    assert hta.why_not() == "" and hta.accuse_traces({2: tmp_path / "x.json"}) == (2,)
    fake.write_text("#!/bin/sh\necho 'no trace' >&2; exit 3\n")
    with pytest.raises(RuntimeError, match="no trace"):
        hta.accuse_traces({})


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / kernels.ARCHIVE).exists(), reason="the public recordings are not here")
def test_a_grossly_slow_rank_of_recorded_traces_is_named() -> None:
    trial = Trial(scenario=kernels.NAME, seed=GROSS_SEED, ranks=0, severity=3.0)
    (ours,) = kernels.compare(trial, names=[OURS], data=SHARED)
    assert ours.cost_ratio is not None and ours.cost_ratio > 0.5 and ours.counted
    assert ours.found and ours.right_class and not ours.error
