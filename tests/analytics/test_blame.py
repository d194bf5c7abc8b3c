"""The wait graph over all groups: one slow rank anywhere in a mesh comes first, its victims of every kind do not."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.clocks import align
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Window, assemble
from argus.evals.simulator.mesh import Harm, Mesh, mesh_layouts, mesh_windows
from argus.topology.layout import build

MESHES = {
    "tp pp dp": Mesh(tp=8, pp=4, dp=4),
    "tp ep dp": Mesh(tp=4, ep=8, dp=16),
    "pp dp": Mesh(pp=8, dp=8),
    "dp": Mesh(dp=32),
    "all": Mesh(tp=4, pp=2, ep=4, dp=8, micro_batches=6),
}
DRAWS = 8


def seen(mesh: Mesh, harm: Harm, *, seed: int, num_steps: int = 4) -> Window:
    """One window of the mesh, aligned."""
    rng = np.random.default_rng(seed)
    parts = next(mesh_windows(mesh, [harm], rng=rng, num_steps=num_steps))
    return align(assemble(parts, build(mesh_layouts(mesh))))


@pytest.mark.slow
@pytest.mark.parametrize("name", MESHES)
def test_the_slow_rank_comes_first_wherever_it_sits(name: str) -> None:
    mesh, rng = MESHES[name], np.random.default_rng(5)
    for seed in range(DRAWS):
        slow, factor = int(rng.integers(mesh.ranks)), float(np.exp(rng.uniform(np.log(1.1), np.log(3.0))))
        waits = waits_of(seen(mesh, Harm(slow={slow: factor}), seed=seed))
        assert int(waits.late_s.argmax()) == slow, (seed, slow, factor)


def shifted_clocks(mesh: Mesh, *, seconds: float) -> Mesh:
    hosts = -(-mesh.ranks // mesh.ranks_per_host)
    return Mesh(**{**vars(mesh), "clock_s": np.linspace(-seconds, seconds, hosts)})


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.01, 30.0])
def test_clocks_of_the_hosts_do_not_matter(seconds: float) -> None:
    mesh = shifted_clocks(MESHES["tp pp dp"], seconds=seconds)
    waits = waits_of(seen(mesh, Harm(slow={77: 1.3}), seed=1))
    assert int(waits.late_s.argmax()) == 77 and waits.late_s[77] > 4 * np.sort(waits.late_s)[-2]


def blamed() -> Waits:
    return waits_of(seen(MESHES["tp pp dp"], Harm(slow={77: 1.5}), seed=2))


def test_victims_are_found_in_groups_of_every_kind() -> None:
    victims, group, seconds = blamed().victims(77)
    assert len(set(victims.tolist())) > 100 and 77 not in victims and (seconds > 0).all()
    assert len(set(group.tolist())) > 3


def test_every_step_votes_for_the_one_that_held_it_up() -> None:
    waits = blamed()
    assert waits.votes[77] == 1.0 and np.sort(waits.votes)[-2] < 0.5


def test_blame_grows_with_the_fault_and_follows_the_rank_when_all_are_renamed() -> None:
    mesh = MESHES["dp"]
    small, large = (waits_of(seen(mesh, Harm(slow={3: f}), seed=3)).late_s[3] for f in (1.2, 1.6))
    assert large > 2 * small
    moved = waits_of(seen(mesh, Harm(slow={30: 1.6}), seed=3))
    assert int(moved.late_s.argmax()) == 30


def test_a_healthy_mesh_blames_nobody_much() -> None:
    window = seen(MESHES["all"], Harm(), seed=4)
    waits = waits_of(window)
    assert waits.late_s.max() < 0.02 * np.nanmedian(window.step_s)


def test_two_slow_ranks_are_both_ahead_of_everybody_else() -> None:
    waits = waits_of(seen(MESHES["tp pp dp"], Harm(slow={10: 1.4, 100: 1.4}), seed=6))
    assert set(np.argsort(-waits.late_s)[:2].tolist()) == {10, 100}
