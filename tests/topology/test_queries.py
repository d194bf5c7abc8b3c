"""Queries on a fleet: words, paths, blast radius, waits, differences, history; names and renaming."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.collectors.records.layout import Layout
from argus.topology.compare import difference
from argus.topology.facts import Edge, Facts
from argus.topology.fleet import Fleet, build_fleet, rename
from argus.topology.layout import Topology, build
from argus.topology.megatron import megatron
from argus.topology.names import NotInTopology
from argus.topology.paths import path_between
from argus.topology.reach import blast_radius, waiters_on, waits_of
from argus.topology.words import describe_element, describe_rank
from tests.topology.causes import cached_fleet
from tests.topology.fleets import Shape
from tests.topology.test_layout import records

SMALL = Shape()
RAILS = Shape(nics_per_host=8, is_rail_optimised=True)


def test_a_rank_in_words() -> None:
    fleet = cached_fleet(SMALL)
    want = "rank 45 · tp 1 · pp 1 · dp 6 · ep 1 · host h-0005 · GPU 5 · NIC mlx5_2 · l1"
    assert describe_rank(fleet, 45) == want
    assert describe_element(fleet, "half:h-0005/1") == "second half of host h-0005"
    assert describe_element(fleet, "nic:h-0005/mlx5_2") == "NIC mlx5_2 of host h-0005"
    assert describe_element(fleet, "link:l1--up") == "uplinks of l1"
    assert describe_element(fleet, "tp/3") == "tp group tp/3 (2 ranks: 6–7)"


def test_bare_numbers_get_their_kind_in_front() -> None:
    edge = Edge(source="host:h1", target="leaf:12", kind="attached", provenance="test")
    layout = Layout(run="r", attempt=0, rank=0, world_size=1, host="h1")
    fleet = build_fleet(
        (Facts(loader="slurm_topology", origin="t", edges=(edge,)),), topology=build([layout])
    )
    assert describe_rank(fleet, 0) == "rank 0 · host h1 · leaf-12"


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("GPU-4f", "GPU-4f"),
        ("MIG-GPU-4f/1/0", "MIG-GPU-4f/1/0"),
        ("00000000:C2:00.0", "GPU 0000:c2:00.0"),
        ("7", "GPU 7"),
    ],
)
def test_a_gpu_is_never_called_by_the_local_rank(device: str, said: str) -> None:
    layout = Layout(run="r", attempt=0, rank=0, world_size=1, host="h1", local_rank=3, device=device)
    fleet = build_fleet((), topology=build([layout]))
    assert describe_rank(fleet, 0) == f"rank 0 · host h1 · {said}"
    (gpu,) = (element for element in fleet.elements_of(0) if element.startswith("gpu:"))
    assert describe_element(fleet, gpu) == f"{said} of host h1"


def test_path_within_a_host_under_one_leaf_and_over_spines() -> None:
    fleet = cached_fleet(SMALL)
    near = path_between(fleet, source=0, target=5)
    assert near.kind == "host" and near.crosses == ("gpu:h-0000/0", "host:h-0000", "gpu:h-0000/5")
    leaf = path_between(fleet, source=0, target=17)
    assert leaf.kind == "leaf" and "leaf:l0" in leaf.crosses and leaf.capacity_gbps == 400.0
    far = path_between(fleet, source=0, target=63)
    assert far.kind == "fabric" and ("spine:s0-0", "spine:s0-1", "spine:s0-2", "spine:s0-3") in far.hops
    assert far.hops[0] == ("rank:0",) and far.hops[-1] == ("rank:63",)
    assert path_between(fleet, source=63, target=0).crosses == tuple(reversed_hops(far.hops))
    assert path_between(fleet, source=3, target=3).kind == "same"


def reversed_hops(hops: tuple[tuple[str, ...], ...]) -> list[str]:
    return [element for hop in reversed(hops[1:-1]) for element in hop]


def test_path_says_what_it_does_not_know() -> None:
    fleet = build_fleet(topology=build(records(megatron(16, tp=2))))
    path = path_between(fleet, source=0, target=15)
    assert path.kind == "unknown" and path.note == "no switch is known between h0 and h1"


def test_nvlink_domain_is_the_way_before_the_network() -> None:
    edges = [
        Edge(source=f"host:h{i}", target="nvlink_domain:d0", kind="part_of", provenance="t") for i in (0, 1)
    ]
    facts = Facts(loader="kubernetes", origin="t", edges=tuple(edges))
    fleet = build_fleet((facts,), topology=build(records(megatron(16, tp=2))))
    assert path_between(fleet, source=0, target=15).kind == "nvlink"


def test_without_groups_nobody_else_is_reached() -> None:
    """One rank alone, or ranks that have met in no group yet."""
    alone = Topology(run="r", attempt=0, world_size=2, hosts={0: "h-0", 1: "h-1"})
    found = blast_radius(build_fleet(topology=alone), "host:h-1")
    assert found.ranks == (1,) and found.groups == {} and found.reached == {}


def test_blast_radius_counts_ranks_groups_stages() -> None:
    radius = blast_radius(cached_fleet(SMALL), "host:h-0003")
    assert radius.ranks == tuple(range(24, 32)) and len(radius.gpus) == 8
    assert radius.groups["tp"] == ("tp/12", "tp/13", "tp/14", "tp/15") and radius.stages == ("stage:0",)
    assert radius.reached["dp"] == 32 and radius.reached["tp"] == 8
    assert radius.share_of_world == pytest.approx(1 / 8)


def test_who_waits_on_whom() -> None:
    fleet = cached_fleet(SMALL)
    sync = waits_of(fleet, 0, phase="grad_sync")
    assert [wait.group for wait in sync] == ["dp_cp/0", "edp/0", "embd/0"]
    (forward,) = [w for w in waits_of(fleet, 40, phase="forward") if w.group.startswith("pp/")]
    assert forward.on == (8,) and "stage before" in forward.why
    (backward,) = [w for w in waits_of(fleet, 8, phase="backward") if w.group.startswith("pp/")]
    assert backward.on == (40,)
    assert 40 in waiters_on(fleet, 8, phase="forward") and 8 not in waiters_on(fleet, 40, phase="forward")
    assert waiters_on(fleet, 0, phase="tp_comm") == (1,)
    with pytest.raises(ValueError, match="phase must be one of"):
        waits_of(fleet, 0, phase="lunch")


def test_difference_after_a_restart_names_moves_and_hosts() -> None:
    rows = records(megatron(16, tp=2))
    later = [replace(row, attempt=1) for row in rows]
    later[8:] = [replace(row, host="spare", device=f"GPU-9{row.rank:03d}") for row in later[8:]]
    old, new = (build_fleet(topology=build(part)) for part in (rows, later))
    change = difference(old, new)
    assert [m.rank for m in change.moved] == list(range(8, 16)) and change.moved[0].new == "spare"
    assert change.hosts_gone == ("h1",) and change.hosts_new == ("spare",)
    assert change.devices[0].old == "GPU-0008" and change.group_sizes == {}
    assert difference(old, old).is_empty and not change.is_empty
    wider = difference(old, build_fleet(topology=build(records(megatron(16, tp=4)))))
    assert wider.group_sizes["tp"] == ("8 × 2", "4 × 4")


def test_relations_hold_in_their_time_only() -> None:
    cable = Edge(source="host:h0", target="leaf:a", kind="attached", provenance="before the repair")
    again = replace(cable, target="leaf:b", provenance="after the repair")
    edges = (replace(cable, until_s=100.0), replace(again, since_s=100.0))
    facts = (Facts(loader="slurm_topology", origin="t", edges=edges),)
    topology = build(records(megatron(8)))
    at = {t: build_fleet(facts, topology=topology, at_s=t).elements_of(0) for t in (50.0, 150.0)}
    assert "leaf:a" in at[50.0] and "leaf:b" not in at[50.0]
    assert "leaf:b" in at[150.0] and "leaf:a" not in at[150.0]


def test_unknown_elements_name_close_ones() -> None:
    fleet = cached_fleet(SMALL)
    with pytest.raises(NotInTopology, match="host:h-9 is not in topology; close: host:h-"):
        fleet.ranks_of("host:h-9")
    with pytest.raises(NotInTopology, match="kinds are rank"):
        blast_radius(fleet, "switch:1")
    with pytest.raises(NotInTopology, match="ranks are 0–63"):
        path_between(fleet, source=0, target=64)
    with pytest.raises(NotInTopology):
        describe_rank(fleet, -1)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_renaming_ranks_commutes_with_every_query(seed: int) -> None:
    fleet = cached_fleet(RAILS)
    rng = np.random.default_rng(seed)
    new = [int(rank) for rank in rng.permutation(64)]
    other = rename(fleet, new)
    rank, peer = (int(r) for r in rng.choice(64, 2, replace=False))
    assert renamed(fleet.topology.peers_of(rank), new) == sorted(other.topology.peers_of(new[rank]))
    assert groups(fleet, rank, new) == groups(other, new[rank], list(range(64)))
    assert strip(fleet.elements_of(rank)) == strip(other.elements_of(new[rank]))
    for element in fleet.elements_of(rank):
        if not element.startswith("rank:"):
            assert renamed(fleet.ranks_of(element), new) == list(other.ranks_of(element))
    assert strip(path_between(fleet, source=rank, target=peer).crosses) == strip(
        path_between(other, source=new[rank], target=new[peer]).crosses
    )
    assert blast_radius(fleet, f"rank:{rank}").reached == blast_radius(other, f"rank:{new[rank]}").reached
    for phase in ("grad_sync", "forward", "backward", "ep_comm"):
        assert renamed(waiters_on(fleet, rank, phase=phase), new) == list(
            waiters_on(other, new[rank], phase=phase)
        )
    assert fleet.topology.coordinates_of(rank) == other.topology.coordinates_of(new[rank])
    assert (
        describe_rank(fleet, rank).partition(" · ")[2] == describe_rank(other, new[rank]).partition(" · ")[2]
    )
    assert difference(fleet, other).hosts_gone == ()


def renamed(ranks: tuple[int, ...], new: list[int]) -> list[int]:
    return sorted(new[rank] for rank in ranks)


def groups(fleet: Fleet, rank: int, new: list[int]) -> set[tuple[str, tuple[int, ...]]]:
    return {(g.id, tuple(renamed(g.ranks, new))) for g in fleet.topology.groups_of(rank)}


def strip(elements: tuple[str, ...]) -> set[str]:
    return {element for element in elements if not element.startswith("rank:")}
