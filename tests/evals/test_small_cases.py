"""Small published cases that are no scenario: what a level says, and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from argus.evals.play import Played, play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

START_UP = 20
"""Steps in which L1 says nothing: the published case's first stall, at step 12, lies in them."""


def stalled(*steps: int) -> Played:
    """The host of one rank stands for 80 ms at some steps of a job with steps of 2 ms."""
    job = Job(ranks=4, steps=60, step_s=0.002, gc_every=0)
    stalls = [
        Fault(kind="compile", ranks=(1,), severity=1 + 40, start_step=step, end_step=step + 1)
        for step in steps
    ]
    return play(simulate(job, stalls, rng=np.random.default_rng(3)))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(12, 27), (27, 42)])
def test_host_stalls_are_spikes_of_l1_after_the_start_up_and_no_slow_rank(steps: tuple[int, int]) -> None:
    played = stalled(*steps)
    spikes = [one for one in played.findings if (one.level, one.kind) == ("L1", "spike")]
    assert {one.start_step for one in spikes} == {step for step in steps if step >= START_UP}
    assert not [one for one in played.incidents if one.cause.fault_class.startswith("compute")]
