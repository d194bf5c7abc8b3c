"""Ranks of one host that come and go together."""

from __future__ import annotations

import pytest

from argus.analytics.lifecycle import is_recurring
from argus.evals.simulator.job import Fault, Job
from tests.analytics.test_attempt import course


@pytest.mark.slow
def test_bouts_of_a_host_become_one_incident_that_is_billed_from_its_bout_on() -> None:
    job = Job(ranks=16, ranks_per_host=4, steps=1500, step_s=0.8)
    bouts = [
        Fault(kind="compute", ranks=(4, 5, 6, 7), start_step=first, end_step=first + 30, severity=1.5)
        for first in range(100, job.steps, 150)
    ]
    incidents = course(job, bouts, seed=1)[-1].state.incidents
    (again,) = [one for one in incidents if is_recurring(one)]
    assert again is incidents[-1] and again.status == "open" and again.cause.suspects == (4, 5, 6, 7)
    assert again.onset_step > incidents[-2].onset_step
