"""Since when a cause is told: from the first step seen, where every window showed it, and what that makes of uneven work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import open_incident, update_incident
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

JOB = Job(ranks=16, ranks_per_host=4, steps=100)
EVERYBODY = tuple(range(16))


def told(fault: Fault, job: Job = JOB, *, seed: int = 1) -> Incident:
    """The first incident of the job."""
    return play(simulate(job, (fault,), rng=np.random.default_rng(seed))).incidents[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("begins", "onset", "is_start"), [(0, 0, True), (20, 20, False), (40, 40, False)])
def test_a_slow_rank_is_told_from_the_first_step_if_every_window_showed_it(
    begins: int, onset: int, is_start: bool, seed: int
) -> None:
    """Three windows agree before it is told, however long it was so."""
    incident = told(Fault(kind="compute", ranks=(5,), severity=1.12, start_step=begins), seed=seed)
    assert incident.cause.suspects == (5,)
    assert (incident.onset_step, incident.cause.from_start_s is not None) == (onset, is_start)


@pytest.mark.parametrize(("begins", "is_start"), [(0, True), (60, False)])
def test_uneven_work_is_critical_only_if_it_began_later(begins: int, is_start: bool) -> None:
    fault = Fault(kind="lengths", ranks=EVERYBODY, severity=1.5, start_step=begins)
    incident = told(fault, replace(JOB, tells_work=True))
    assert incident.cause.fault_class == "imbalance.sequence" and incident.cost.share_of_step > 0.1
    assert (incident.onset_step == 0, incident.cause.from_start_s is not None) == (is_start, is_start)
    assert incident.severity == ("warning" if is_start else "critical")


def test_uneven_work_that_costs_three_times_what_it_did_is_critical() -> None:
    cause = Cause(
        fault_class="imbalance.experts",
        verdict="CONFIRMED",
        suspects=(),
        scope="run:r",
        share_of_step=0.2,
        s_per_step=0.1,
        from_start_s=0.1,
    )
    incident = open_incident(cause, run="r", attempt=0, window=3, steps_done=40, world=8)
    severities = []
    for window, times in ((4, 1.0), (5, 2.0), (6, 3.5)):
        newer = replace(cause, s_per_step=0.1 * times, share_of_step=0.2 * times, from_start_s=None)
        incident = update_incident(incident, newer, window=window, steps_done=80, world=8)
        severities.append(incident.severity)
    assert severities == ["warning", "warning", "critical"]


@pytest.mark.parametrize("seed", [1, 4, 10])
def test_slow_saves_begin_with_the_first_slow_save_whatever_the_rank_computes(seed: int) -> None:
    """Between two saves the rank is as fast as its peers, by chance a little slower all the time: that says nothing."""
    job = replace(JOB, steps=200, checkpoint_every=20, checkpoint_s=2.0)
    incident = told(Fault(kind="save", ranks=(1,), severity=3.0, start_step=100), job, seed=seed)
    assert incident.cause.fault_class == "host.filesystem" and incident.cause.suspects == (1,)
    assert incident.onset_step == 100
