"""Playing a job delivers windows and heartbeats as a service would get them; trials are repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.evals.moments import BEAT_PERIOD_S, WATCH_STOPPED_S, moments
from argus.evals.play import play
from argus.evals.score import Trial
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.suites import HELDOUT_SEED, SUITES, run_trial

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
@pytest.mark.parametrize("trial", list(SUITES["smoke"].trials()), ids=lambda t: f"{t.scenario}-{t.ranks}")
def test_every_smoke_trial_is_right(trial: Trial) -> None:
    outcome = run_trial(trial)
    assert outcome.ok, (outcome.truth, outcome.got, outcome.error)
    assert outcome.delay_windows is None or outcome.delay_windows <= 3


def test_no_seed_is_in_both_splits() -> None:
    developed = {seed for name in ("smoke", "dev", "dev-full") for seed in SUITES[name].seeds}
    assert max(developed) < HELDOUT_SEED <= min(SUITES["heldout"].seeds)
