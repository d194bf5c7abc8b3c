"""Slow paths: a single bad link by its two ends, a slow group, what several share; never where a member is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.delays import delays_of, ends_of
from argus.analytics.incident import Incident
from argus.analytics.waits import waits_of
from argus.analytics.window import assemble
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.evals.simulator.mesh import Harm, Mesh, members_of, mesh_layouts, mesh_windows
from argus.topology.layout import build

PIPES = Mesh(tp=2, pp=4, dp=6, ranks_per_host=4)
PLANES = Mesh(tp=4, dp=16, ranks_per_host=4)
HEALTHY, SICK = 7, 3


def incidents_of(
    mesh: Mesh, harm: Harm, *, seed: int = 0, beats: Sequence[Heartbeat] = ()
) -> tuple[Incident, ...]:
    """What is open after some healthy windows and some with the harm."""
    topology = build(mesh_layouts(mesh))
    state = AttemptState.start(mesh.run, 0)
    harms = [Harm()] * HEALTHY + [harm] * SICK
    for parts in mesh_windows(mesh, harms, rng=np.random.default_rng(seed), num_steps=6):
        window = align(assemble(parts, topology))
        state = advance(state, topology=topology, now_s=0.0, window=window, beats=beats).state
    return state.incidents


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(12, 24), (24, 12), (33, 45)])
def test_a_bad_link_is_named_by_its_two_ends(pair: tuple[int, int]) -> None:
    (incident,) = incidents_of(PIPES, Harm(pairs={pair: 60.0}))
    cause = incident.cause
    assert (cause.fault_class, cause.suspects) == ("link.slow", pair)
    assert cause.paths == (f"{pair[0]}>{pair[1]}",)
    low, high = sorted(PIPES.host(rank) for rank in pair)
    assert cause.scope == f"edge:host:{low}--host:{high}"
    assert cause.group is not None and cause.group.startswith("pp/")
    assert cause.second_best == "host.cpu_starved" and cause.separation is not None


@pytest.mark.slow
def test_all_links_of_one_host_are_one_cause() -> None:
    """Host 3 holds ranks 12 to 15, which send forth to 24 … 27."""
    pairs = {(rank, rank + 12): 60.0 for rank in range(12, 16)}
    incidents = incidents_of(PIPES, Harm(pairs=pairs))
    assert [incident.cause.fault_class for incident in incidents] == ["link.slow"]
    assert set(incidents[0].cause.suspects) == {*range(12, 16), *range(24, 28)}
    assert len(incidents[0].cause.paths) == 4


@pytest.mark.slow
def test_a_slow_group_is_named_as_a_group() -> None:
    (incident,) = incidents_of(PLANES, Harm(groups={("dp", 2): 60.0}))
    assert incident.cause.fault_class == "link.slow" and incident.cause.scope == "group:dp/2"
    assert incident.cause.suspects == tuple(members_of(PLANES)["dp"][2].tolist())


@pytest.mark.slow
def test_a_slow_link_and_a_slow_rank_elsewhere_stay_two() -> None:
    incidents = incidents_of(PIPES, Harm(pairs={(12, 24): 60.0}, slow={40: 1.5}))
    assert {(i.cause.fault_class, i.cause.suspects) for i in incidents} == {
        ("link.slow", (12, 24)),
        ("compute.slow", (40,)),
    }


@pytest.mark.slow
def test_a_member_that_does_not_run_leaves_the_link_undecided() -> None:
    beats = [
        Heartbeat(
            run=PIPES.run,
            attempt=0,
            rank=rank,
            host=PIPES.host(rank),
            ts_s=1.0,
            process_state="D" if rank == 24 else "S",
            status=Status(ts_ns=1, step=1),
        )
        for rank in range(PIPES.ranks)
    ]
    (incident,) = incidents_of(PIPES, Harm(pairs={(12, 24): 60.0}), beats=beats)
    assert incident.cause.verdict == "INCONCLUSIVE"
    assert any("rank 24 is in state D" in item.note for item in incident.cause.evidence)


@pytest.mark.slow
def test_healthy_paths_accuse_nobody() -> None:
    for seed in range(3):
        assert incidents_of(PIPES, Harm(), seed=seed) == ()


def test_the_matrix_has_a_row_per_pair_and_direction_and_one_per_group() -> None:
    topology = build(mesh_layouts(PIPES))
    harm = Harm(pairs={(12, 24): 60.0})
    parts = next(mesh_windows(PIPES, [harm], rng=np.random.default_rng(0), num_steps=4))
    window = assemble(parts, topology)
    delays = delays_of(window, waits_of(window))
    pairs = [ends for path in delays.paths if (ends := ends_of(path)) is not None]
    assert len(pairs) == len(set(pairs)) == 2 * 3 * 12
    assert {path for path in delays.paths if ends_of(path) is None} == {group.id for group in topology.groups}
    per_step = dict(zip(delays.paths, delays.sum_s, strict=True))
    assert max((f"{a}>{b}" for a, b in pairs), key=lambda path: per_step[path]) == "12>24"
    again = delays_of(replace(window, collectives=window.collectives), waits_of(window))
    assert np.array_equal(again.sum_s, delays.sum_s, equal_nan=True)
