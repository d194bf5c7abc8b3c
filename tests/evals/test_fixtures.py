"""Faults of the incident log as small jobs: what each looks like, and what it must be called.

Its hangs, half hosts, dips, collections and loader stalls are in `test_traps`; silent links, copies, sequence
lengths, experts and masked stages are scenarios of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.incident import Incident
from argus.evals.play import Played, play
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

DATA = Job(ranks=8, steps=120)
EVERYBODY = tuple(range(8))


def run(job: Job, *faults: Fault, seed: int = 1) -> Played:
    return play(simulate(job, faults, rng=np.random.default_rng(seed)))


def accused(incidents: tuple[Incident, ...]) -> set[int]:
    return {rank for incident in incidents for rank in incident.cause.suspects}


@pytest.mark.slow
def test_a6_a_low_clock_slows_products_and_spares_what_moves_memory() -> None:
    clock = Fault(kind="compute", kernels="gemm|flash", ranks=(5,), severity=1.4, start_step=60)
    found = run(replace(DATA, kernels=10), clock).incidents
    assert accused(found) == {5} and {i.cause.fault_class for i in found} == {"compute.slow"}


@pytest.mark.slow
def test_a2_a_state_that_comes_and_goes_is_the_same_rank_each_time() -> None:
    bouts = [
        Fault(kind="compute", ranks=(5,), severity=1.4, start_step=first, end_step=first + 30)
        for first in (60, 120, 180)
    ]
    found = run(replace(DATA, steps=230), *bouts).incidents
    assert accused(found) == {5} and len({i.fingerprint for i in found}) == 1


@pytest.mark.slow
def test_d1_a_rank_that_dies_is_lost_and_not_slow() -> None:
    (found,) = run(DATA, Fault(kind="lost", ranks=(2,), start_step=60)).incidents
    assert found.cause.fault_class == "stop.lost" and found.cause.suspects == (2,)


@pytest.mark.slow
def test_j2_everybody_is_slower_while_a_save_runs_in_the_background() -> None:
    saves = [
        Fault(kind="slow_all", ranks=EVERYBODY, severity=1.2, start_step=first, end_step=first + 8)
        for first in (51, 101)
    ]
    assert not accused(run(replace(DATA, checkpoint_every=50, steps=150), *saves).incidents)


@pytest.mark.slow
def test_m3_a_larger_cut_of_one_stage_is_no_machine() -> None:
    job = Job(ranks=8, pp=4, micro_batches=8, steps=100, stage_work=(1.0, 1.25, 1.0, 1.0))
    (found,) = run(job).incidents
    assert (found.cause.fault_class, found.cause.scope) == ("pipeline.imbalance", "stage:1")
    assert not found.cause.suspects


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [True, False])
def test_o3_a_rank_whose_allocator_flushes_its_cache_each_step(gpu: bool) -> None:
    """The runtime tells of the retries; the phase they stretch may be timed by the GPU's clock all the same."""
    flushes = Fault(kind="alloc", ranks=(3,), severity=1.4, start_step=60)
    (found,) = run(replace(DATA, gpu=gpu), flushes).incidents
    assert (found.cause.fault_class, found.cause.suspects) == ("host.allocator", (3,))
    assert any(item.name == "alloc_retries" for item in found.cause.evidence)


@pytest.mark.slow
def test_r4_all_groups_slower_alike_is_no_groups_path() -> None:
    job = replace(DATA, ranks=16, tp=2)
    band = Fault(kind="link", ranks=tuple(range(16)), severity=1.3, start_step=60)
    assert len(shape_of(job).groups["dp"].members) == 2
    found = run(job, band).incidents
    assert {i.cause.fault_class for i in found} <= {"link.slow", "step.slower"}
    assert not any(len(i.cause.suspects) == 1 for i in found)


@pytest.mark.slow
def test_u1_slow_first_steps_are_start_up() -> None:
    cold = Fault(kind="slow_all", ranks=EVERYBODY, severity=3.0, start_step=0, end_step=15)
    assert not run(DATA, cold).incidents


@pytest.mark.slow
def test_w1_a_daemon_that_wakes_now_and_then_is_at_most_its_own_host() -> None:
    job = replace(DATA, ranks=32, gpu=False)
    wakes = Fault(
        kind="starved", ranks=tuple(range(8, 16)), severity=1.3, start_step=60, end_step=None, every=12
    )
    assert accused(run(job, wakes).incidents) <= set(range(8, 16))


# Small published cases.


@pytest.mark.slow
def test_eight_ranks_forty_steps_one_of_them_twenty_times_slower_from_step_15() -> None:
    slow = Fault(kind="compute", ranks=(5,), severity=20.0, start_step=15)
    (found,) = run(Job(ranks=8, steps=40), slow).incidents
    assert found.cause.suspects == (5,) and abs(found.onset_step - 15) <= 1


@pytest.mark.slow
def test_ranks_4_to_7_have_slow_collectives_and_the_step_is_flat() -> None:
    """Three kinds of calls of one group of four take ten times as long from the first step on."""
    job = Job(ranks=32, ep=4, steps=80, kernels=4, checkpoint_every=0)
    group = Fault(kind="link", group="ep", ranks=(4, 5, 6, 7), severity=1.8)
    played = run(job, group)
    assert not [f for f in played.findings if f.level == "L1" and f.kind in ("spike", "shift")]
    assert accused(played.incidents) == {4, 5, 6, 7}
    assert {i.cause.fault_class for i in played.incidents} == {"link.slow"}


@pytest.mark.slow
def test_four_stages_the_last_with_a_backward_of_190_per_cent() -> None:
    job = Job(ranks=4, pp=4, micro_batches=8, steps=60)
    longer = Fault(kind="compute", phase="backward", ranks=(3,), severity=1 + 0.9 * 0.6)
    (found,) = run(job, longer).incidents
    assert (found.cause.fault_class, found.cause.scope) == ("pipeline.imbalance", "stage:3")


@pytest.mark.slow
def test_two_stalls_of_80_ms_in_steps_of_2_ms_are_spikes_and_no_incident() -> None:
    job = Job(ranks=4, steps=40, step_s=0.002, gc_every=0)
    stalls = [
        Fault(kind="compile", ranks=(1,), severity=41.0, start_step=step, end_step=step + 1)
        for step in (12, 27)
    ]
    played = run(job, *stalls)
    assert not accused(played.incidents)
    spikes = {f.start_step for f in played.findings if f.kind == "spike"}
    assert 27 in spikes <= {12, 27}
