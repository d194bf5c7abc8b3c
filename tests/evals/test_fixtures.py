"""Faults of the incident log that no scenario plays, as small jobs; the others are listed in docs/evals.md."""

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


def run(job: Job, *faults: Fault, seed: int = 1) -> Played:
    return play(simulate(job, faults, rng=np.random.default_rng(seed)))


def accused(incidents: tuple[Incident, ...]) -> set[int]:
    return {rank for incident in incidents for rank in incident.cause.suspects}


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
def test_ranks_4_to_7_have_slow_collectives_and_the_step_is_flat() -> None:
    """Three kinds of calls of one group of four take ten times as long from the first step on."""
    job = Job(ranks=32, ep=4, steps=80, kernels=4, checkpoint_every=0)
    group = Fault(kind="link", group="ep", ranks=(4, 5, 6, 7), severity=1.8)
    played = run(job, group)
    assert not [f for f in played.findings if f.level == "L1" and f.kind in ("spike", "shift")]
    assert accused(played.incidents) == {4, 5, 6, 7}
    assert {i.cause.fault_class for i in played.incidents} == {"link.slow"}
