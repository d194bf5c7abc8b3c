"""What an incident costs: no more than the steps lost, by the method that is named, also beside another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.cost import CRITICAL_PATH, NONE, REPLAY, STANDSTILL, cost_of_steps, cost_of_stop
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Incident
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics.test_attempt import windows

SLOW = Cause(
    fault_class="compute.slow",
    verdict="LIKELY",
    suspects=(1,),
    scope="rank:1",
    s_per_step=1.0,
    share_of_step=0.25,
    onset_step=10,
)


def test_steps_keep_the_price_they_had() -> None:
    first = cost_of_steps(NONE, SLOW, onset_step=10, steps_done=19, world=36)
    assert first.gpu_hours_so_far == pytest.approx(0.1) and first.num_steps == 10
    eased = cost_of_steps(first, replace(SLOW, s_per_step=0.1), onset_step=10, steps_done=29, world=36)
    assert eased.gpu_hours_so_far == pytest.approx(0.11) and eased.s_per_step == 0.1
    assert cost_of_steps(
        eased, SLOW, onset_step=10, steps_done=29, world=36
    ).gpu_hours_so_far == pytest.approx(0.11)
    assert cost_of_steps(eased, SLOW, onset_step=10, steps_done=5, world=36).num_steps == 20
    assert first.gpu_hours_per_day == 0.25 * 24 * 36


def test_the_method_is_named() -> None:
    replayed = replace(SLOW, evidence=(Evidence(name="replay_gain_s", value=1.0),))
    methods = [
        cost_of_steps(NONE, cause, onset_step=0, steps_done=1, world=1).method for cause in (SLOW, replayed)
    ]
    assert methods == [CRITICAL_PATH, REPLAY]
    stopped = cost_of_stop(NONE, replace(SLOW, evidence=(Evidence(name="stalled_s", value=100.0),)), world=36)
    assert stopped.method == STANDSTILL and stopped.gpu_hours_so_far == pytest.approx(1.0)
    assert cost_of_stop(stopped, SLOW, world=36).gpu_hours_so_far == pytest.approx(1.0)


def played(*faults: Fault) -> tuple[list[Incident], float, float]:
    """Incidents of a job of 16 ranks, with the mean step of steps 60 to 99 and of 100 to 199."""
    job = Job(ranks=16, steps=200, step_s=0.4)
    done = simulate(job, faults, rng=np.random.default_rng(4))
    topology = build(done.layouts)
    state = AttemptState.start(job.run, 0)
    for window in windows(done, topology):
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    steps = (done.timeline.end_s - done.timeline.start_s).max(axis=1)
    return list(state.incidents), float(steps[60:100].mean()), float(steps[100:].mean())


@pytest.mark.slow
@pytest.mark.parametrize("severity", [1.15, 1.5])
def test_the_cost_is_what_the_steps_lost(severity: float) -> None:
    (incident,), before_s, after_s = played(
        Fault(kind="compute", ranks=(5,), start_step=100, severity=severity)
    )
    lost_s = after_s - before_s
    assert incident.cost.s_per_step == pytest.approx(lost_s, rel=0.25)
    assert incident.cost.gpu_hours_so_far == pytest.approx(lost_s * 100 * 16 / 3600, rel=0.3)


@pytest.mark.slow
def test_two_faults_at_once_do_not_cost_more_than_the_steps_lost() -> None:
    found, before_s, after_s = played(
        Fault(kind="compute", ranks=(5,), start_step=100, severity=1.5),
        Fault(kind="compute", ranks=(12,), start_step=100, severity=1.4),
    )
    assert {rank for incident in found for rank in incident.cause.suspects} >= {5}
    assert sum(incident.cost.s_per_step for incident in found) <= 1.25 * (after_s - before_s)
