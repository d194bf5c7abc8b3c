"""Playing a job delivers windows and heartbeats as a service would get them; trials are repeatable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import main
from argus.evals.moments import BEAT_PERIOD_S, WATCH_STOPPED_S, moments
from argus.evals.play import play
from argus.evals.score import Trial
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.suites import HELDOUT_SEED, PAPER, SUITES, Suite, own_size, run_trial

JOB = Job(ranks=4, steps=45, step_s=0.5)


def run(*faults: Fault, job: Job = JOB) -> Simulation:
    return simulate(job, faults, rng=np.random.default_rng(1))


def test_moments_come_in_order_with_every_window_once() -> None:
    seen = list(moments(run()))
    assert [m.now_s for m in seen] == sorted(m.now_s for m in seen)
    windows = [m.parts for m in seen if m.parts]
    assert [parts[0].window for parts in windows] == [0, 1, 2, 3, 4]
    assert all([part.rank for part in parts] == [0, 1, 2, 3] for parts in windows)
    beats = [m.now_s for m in seen if m.beats]
    assert np.allclose(np.diff(beats), BEAT_PERIOD_S)


def test_a_window_a_stopped_job_never_finished_is_not_delivered() -> None:
    simulation = run(Fault(kind="hang", ranks=(1,), start_step=25))
    seen = list(moments(simulation))
    assert [m.parts[0].window for m in seen if m.parts] == [0, 1]
    assert seen[-1].now_s > simulation.last_end_s + WATCH_STOPPED_S - BEAT_PERIOD_S


def test_ranks_that_never_report_have_neither_parts_nor_beats() -> None:
    seen = list(moments(run(job=replace(JOB, missing=(2,)))))
    assert {part.rank for m in seen for part in m.parts} == {0, 1, 3}
    assert {beat.rank for m in seen for beat in m.beats} == {0, 1, 3}


def test_playing_twice_says_the_same() -> None:
    simulation = run(Fault(kind="compute", ranks=(3,), start_step=20, severity=2.0))
    assert play(simulation) == play(simulation)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_a_case_of_the_paper_is_named_right_at_a_hundredth_of_its_size(name: str) -> None:
    """At their own size they are the suite `paper`: minutes each."""
    outcome = run_trial(Trial(scenario=name, seed=1, ranks=64, severity=1.5))
    assert outcome.ok, (outcome.truth, outcome.got, outcome.error)
    assert own_size(name) >= 512


def test_a_crash_of_the_analysis_is_a_failed_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("argus.evals.suites.play", crash)
    outcome = run_trial(Trial(scenario="healthy", seed=0, ranks=4, severity=1.5))
    assert outcome.error == "RuntimeError: boom" and not outcome.ok


@pytest.mark.slow
def test_the_command_gates_on_a_baseline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("gc_pause", "healthy", "slow_rank")
    tiny = Suite(ranks=(2,), severities=(2.0,), seeds=(3,), names=names)
    monkeypatch.setattr("argus.evals.evaluate.SUITES", {"smoke": tiny})
    gate = tmp_path / "baseline.json"
    assert main(["eval", "run", "--smoke", "--json", "--write-gate", str(gate)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["scenarios"]) == set(names) and not report["dropped"]
    scores = json.loads(gate.read_text(encoding="utf-8"))
    scores["smoke"]["healthy"]["ok_ratio"] = 1.5
    gate.write_text(json.dumps(scores), encoding="utf-8")
    assert main(["eval", "run", "--smoke", "--gate", str(gate)]) == 1
    assert "below the baseline: healthy: ok_ratio" in capsys.readouterr().out


def test_no_seed_is_in_both_splits() -> None:
    developed = {seed for name in ("smoke", "dev", "dev-full") for seed in SUITES[name].seeds}
    assert max(developed) < HELDOUT_SEED <= min(SUITES["heldout"].seeds)


@pytest.mark.slow
def test_the_pipeline_of_a_slow_ranks_sibling_is_no_slow_link() -> None:
    job = Job(run="tp", ranks=32, tp=2, pp=4, micro_batches=8, steps=90, step_s=1.2, kernels=10)
    fault = Fault(kind="compute", ranks=(21,), severity=1.4, start_step=40)
    played = play(simulate(job, (fault,), rng=np.random.default_rng(3)))
    assert {finding.group for finding in played.findings if finding.kind == "group_shift"} >= {"pp/4"}
    assert [incident.cause.suspects for incident in played.incidents] == [(21,)]
