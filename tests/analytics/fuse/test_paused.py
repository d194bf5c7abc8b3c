"""Pauses of the whole job beside those of ranks that are named for them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from argus.analytics.incident import Incident
from argus.analytics.lifecycle import NAMED_BETTER
from argus.evals.simulator.job import Fault, Job
from tests.analytics.test_attempt import course

JOB = Job(ranks=16, ranks_per_host=4, steps=300, step_s=0.8)
ONSET = 100


def incidents_of(faults: Sequence[Fault], *, seed: int = 3) -> tuple[Incident, ...]:
    return course(JOB, faults, seed=seed)[-1].state.incidents


def collecting(*ranks: int, severity: float = 1.2) -> Fault:
    return Fault(kind="gc", ranks=ranks, start_step=ONSET, severity=severity)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pauses_of_ranks_that_are_named_are_not_told_of_the_whole_job_as_well(seed: int) -> None:
    incidents = incidents_of([collecting(5, 6)], seed=seed)
    assert {one.cause.fault_class for one in incidents} == {"host.gc"}
    assert sorted(one.cause.suspects for one in incidents if not one.ended) == [(5,), (6,)]
    assert all(one.ended == NAMED_BETTER for one in incidents if not one.cause.suspects)


@pytest.mark.slow
def test_no_step_is_billed_for_the_whole_job_and_for_the_ranks() -> None:
    whole, *ranks = incidents_of([collecting(5, 6)])
    assert whole.cause.suspects == () and {one.cause.suspects for one in ranks} == {(5,), (6,)}
    lost_s = sum(one.cost.gpu_hours_so_far for one in (whole, *ranks)) * 3600 / JOB.ranks
    assert lost_s / (JOB.steps - ONSET) == pytest.approx(0.1675, rel=0.15)


@pytest.mark.slow
def test_what_all_ranks_pause_in_turn_stays_told_of_the_whole_job() -> None:
    turns = [
        Fault(kind="gc", ranks=(rank,), start_step=ONSET + 2 * rank, every=32, severity=3.0)
        for rank in range(JOB.ranks)
    ]
    (whole,) = incidents_of(turns)
    assert (whole.cause.fault_class, whole.cause.suspects, whole.ended) == ("host.gc", (), "")


@pytest.mark.slow
def test_ranks_in_turn_beside_one_that_is_named_are_told_at_the_price_of_the_rest() -> None:
    turns = [
        Fault(kind="gc", ranks=(rank,), start_step=ONSET + 2 * rank, every=32, severity=2.0)
        for rank in range(JOB.ranks)
    ]
    alone = incidents_of(turns)
    both = incidents_of([*turns, collecting(5, severity=1.3)])
    left = {one.cause.suspects: one for one in both if not one.ended}
    assert set(left) == {(), (5,)}
    assert 0 < left[()].cost.s_per_step <= 1.2 * alone[0].cost.s_per_step


@pytest.mark.slow
def test_what_pauses_cost_is_a_share_of_the_steps_they_were_in() -> None:
    """Of the last window's alone it was: all of the step where that had none, beside a price longer than the step."""
    often = [
        Fault(kind="gc", ranks=(rank,), start_step=ONSET + rank, every=8, severity=6.0) for rank in range(8)
    ]
    (whole,) = incidents_of(often)
    step = next(item for item in whole.cause.evidence if item.name == "step_s")
    assert 0 < whole.cause.s_per_step < step.value
    assert whole.cause.share_of_step == pytest.approx(whole.cause.s_per_step / step.value)
