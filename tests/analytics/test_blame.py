"""The wait graph over all groups: one slow rank anywhere in a mesh comes first, its victims of every kind do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Window
from argus.evals.simulator.job import Fault, Job
from tests.analytics.mesh_kit import mesh, slow, windows

MESHES = {
    "tp pp dp": mesh(ranks=64, tp=4, pp=4, micro_batches=4),
    "tp ep dp": mesh(ranks=64, tp=4, ep=4),
    "pp dp": mesh(ranks=32, pp=4, micro_batches=4, per_host=8),
    "dp": mesh(ranks=32, per_host=8),
    "all": mesh(ranks=64, tp=4, pp=2, ep=4, micro_batches=2),
}
DRAWS = 6


def seen(job: Job, *faults: Fault, seed: int) -> Window:
    """One window of the job."""
    return next(windows(job, faults, seed=seed)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", MESHES)
def test_the_slow_rank_comes_first_wherever_it_sits(name: str) -> None:
    job, rng = MESHES[name], np.random.default_rng(5)
    for seed in range(DRAWS):
        rank, factor = int(rng.integers(job.ranks)), float(np.exp(rng.uniform(np.log(1.1), np.log(3.0))))
        waits = waits_of(seen(job, slow(rank, factor), seed=seed))
        assert int(waits.voted_s.argmax()) == rank, (seed, rank, factor)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.01, 30.0])
def test_clocks_of_the_hosts_do_not_matter(seconds: float) -> None:
    job = replace(MESHES["tp pp dp"], clock_offset_s=seconds)
    waits = waits_of(seen(job, slow(37, 1.3), seed=1))
    assert int(waits.late_s.argmax()) == 37 and waits.late_s[37] > 3 * np.sort(waits.late_s)[-2]


def blamed() -> Waits:
    return waits_of(seen(MESHES["tp pp dp"], slow(37, 1.5), seed=2))


@pytest.mark.slow
def test_victims_are_found_in_groups_of_every_kind() -> None:
    victims, group, seconds = blamed().victims(37)
    assert len(set(victims.tolist())) > 50 and 37 not in victims and (seconds > 0).all()
    assert len(set(group.tolist())) > 3


@pytest.mark.slow
def test_every_step_votes_for_the_one_that_held_it_up() -> None:
    waits = blamed()
    assert waits.votes[37] == 1.0 and np.sort(waits.votes)[-2] < 0.5


@pytest.mark.slow
def test_blame_grows_with_the_fault_and_follows_the_rank() -> None:
    job = MESHES["dp"]
    small, large = (waits_of(seen(job, slow(3, factor), seed=3)).late_s[3] for factor in (1.2, 1.6))
    assert large > 2 * small
    assert int(waits_of(seen(job, slow(30, 1.6), seed=3)).late_s.argmax()) == 30


@pytest.mark.slow
def test_a_healthy_mesh_blames_nobody_much() -> None:
    window = seen(MESHES["all"], seed=4)
    assert waits_of(window).voted_s.max() < 0.02 * np.nanmedian(window.step_s)


@pytest.mark.slow
def test_two_slow_ranks_are_both_ahead_of_everybody_else() -> None:
    waits = waits_of(seen(MESHES["tp pp dp"], slow(10, 1.4), slow(52, 1.4), seed=6))
    assert set(np.argsort(-waits.late_s)[:2].tolist()) == {10, 52}
