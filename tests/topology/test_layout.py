"""One topology from records of several sources: trust, conflicts, inference, peers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.identity import Declared
from argus.topology.layout import Topology, build
from argus.topology.megatron import megatron
from argus.topology.names import NotInTopology
from argus.topology.parallel import Parallel, device_mesh

ROOT = Path(__file__).parents[2]

DESCS = {
    "world": "default_pg",
    "tp": "TENSOR_MODEL_PARALLEL_GROUP",
    "dp": "DATA_PARALLEL_GROUP",
    "dp_cp": "DATA_PARALLEL_GROUP_WITH_CP",
    "cp": "CONTEXT_PARALLEL_GROUP",
    "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
    "ep": "EXPERT_MODEL_PARALLEL_GROUP",
    "edp": "EXPERT_DATA_PARALLEL_GROUP",
}


def records(
    layout: Parallel, *, per_host: int = 8, descs: dict[str, str] | None = None, source: str = "live"
) -> list[Layout]:
    """What every rank of a layout would report of itself."""
    names = DESCS if descs is None else descs
    groups = [g for g in layout.groups() if g.kind in names]
    return [
        Layout(
            run="r",
            attempt=0,
            rank=rank,
            world_size=layout.world_size,
            local_rank=rank % per_host,
            host=f"h{rank // per_host}",
            device=f"GPU-{rank:04d}",
            groups=tuple(
                GroupInfo(name=str(i), desc=names[g.kind], ranks=g.ranks)
                for i, g in enumerate(groups)
                if rank in g.ranks
            ),
            source=source,
        )
        for rank in range(layout.world_size)
    ]


def test_kinds_and_coordinates_come_from_descriptions() -> None:
    layout = megatron(16, tp=2, cp=2, pp=2)
    topology = build(records(layout))
    names, coords = layout.coords()
    for rank in range(16):
        want = dict(zip(names, coords[rank], strict=True))
        assert topology.coordinates_of(rank) == {k: want[k] for k in topology.dims}
    assert {g.kind for g in topology.groups} == {"world", "tp", "cp", "dp", "dp_cp", "pp"}
    assert not topology.conflicts and topology.inferred == ()


def test_peers_do_the_same_work() -> None:
    topology = build(records(megatron(16, tp=2, pp=2, ep=4, etp=1)))
    assert topology.peers_of(0) == (2, 4, 6)
    assert topology.peers_of(0, "ep_comm") == (4,)


def test_hybrid_shard_peers_are_the_whole_data_group() -> None:
    descs = {"dp_replicate": "mesh_dp_replicate", "dp_shard": "mesh_dp_shard"}
    topology = build(
        records(
            device_mesh((("dp_replicate", 2), ("dp_shard", 4)), flatten={"dp": ("dp_replicate", "dp_shard")}),
            descs=descs,
        )
    )
    assert topology.peers_of(5) == (0, 1, 2, 3, 4, 6, 7)
    assert topology.dims == ("dp_shard", "dp_replicate")
    assert {g.kind for g in topology.groups} == {"dp_shard", "dp_replicate"}


def test_a_lone_shard_dimension_is_data_parallel() -> None:
    mesh = device_mesh((("dp_shard", 4), ("tp", 2)))
    topology = build(records(mesh, descs={"dp_shard": "mesh_dp_shard", "tp": "mesh_tp"}))
    assert {g.kind for g in topology.groups} == {"dp", "tp"}
    assert topology.peers_of(1) == (3, 5, 7)


def test_unnamed_groups_are_inferred_and_said_to_be() -> None:
    descs = dict.fromkeys(("tp", "dp", "pp"), "undefined") | {"world": "default_pg"}
    topology = build(records(megatron(16, tp=2, pp=2), descs=descs))
    assert topology.inferred == ("dp", "pp", "tp")
    assert topology.groups_of(0)[1].ranks == megatron(16, tp=2, pp=2).groups()[-1].ranks or topology.dims
    assert topology.coordinates_of(9) == {"tp": 1, "dp": 0, "pp": 1}


def test_the_most_trusted_source_is_used_and_both_versions_told() -> None:
    live = records(megatron(8, tp=2))
    trace = [replace(row, source="kineto") for row in records(megatron(8, tp=4))]
    for order in (live + trace, trace + live):
        topology = build(order)
        assert topology.group("tp/0").ranks == (0, 1)
        told = [text for text in topology.conflicts if text.startswith("tp groups")]
        assert len(told) == 1 and "[0, 1]" in told[0] and "[0, 1, 2, 3]" in told[0]
        assert "live is used" in told[0] and "kineto" in told[0]
        assert topology.sources["group:tp"] == "live"


def test_less_trusted_sources_fill_gaps() -> None:
    live = records(megatron(8, tp=2))[:4]
    dumps = records(megatron(8, tp=2), source="flight_recorder")[4:]
    topology = build(live + dumps)
    assert len([g for g in topology.groups if g.kind == "tp"]) == 4
    assert topology.host_of(7) == "h0" and not topology.conflicts


def test_declared_layout_fills_and_conflicts() -> None:
    alone = build((), declared=[Declared(parallel=megatron(16, tp=2, pp=4), origin="train.log")])
    assert alone.group("pp/1").ranks == (1, 5, 9, 13) and alone.coordinates_of(15)["pp"] == 3
    wrong = Declared(parallel=megatron(16, tp=4), origin="train.log")
    topology = build(records(megatron(16, tp=2, pp=4)), declared=[wrong])
    assert any("arguments (train.log)" in text and "tp groups" in text for text in topology.conflicts)
    assert topology.group("tp/0").ranks == (0, 1)
    other = build(records(megatron(8)), declared=[wrong])
    assert any("a world of 16 ranks" in text for text in other.conflicts)


def test_contradictory_records_are_told() -> None:
    rows = records(megatron(4, tp=2))
    bad = replace(rows[1], groups=(GroupInfo(name="0", desc=DESCS["tp"], ranks=(1, 2)),))
    moved = replace(rows[3], host="elsewhere", source="kineto")
    topology = build([rows[0], bad, rows[2], rows[3], moved])
    assert any("rank 1 is in tp group" in text for text in topology.conflicts)
    assert any("'elsewhere' (kineto)" in text and "'h0' (live)" in text for text in topology.conflicts)
    assert topology.host_of(3) == "h0"


def test_groups_outlive_an_orderly_end() -> None:
    rows = records(megatron(8, tp=2))
    ended = [replace(row, groups=()) for row in rows]
    assert build([*rows, *ended]).groups == build(rows).groups


def test_an_empty_default_group_is_every_rank() -> None:
    rows = [
        Layout(
            run="r",
            attempt=0,
            rank=r,
            world_size=3,
            groups=(GroupInfo(name="0", desc="default_pg", ranks=()),),
        )
        for r in range(3)
    ]
    assert build(rows).group("world/0").ranks == (0, 1, 2)


def test_unknown_names_are_never_an_empty_success() -> None:
    topology = build(records(megatron(16, tp=2), per_host=4))
    with pytest.raises(NotInTopology, match=r"rank 16 is not in topology; close: rank 15"):
        topology.groups_of(16)
    with pytest.raises(NotInTopology, match="'h9' is not in topology; close: h"):
        topology.ranks_of_host("h9")
    with pytest.raises(NotInTopology, match="close: tp/"):
        topology.group("tp/99")
    with pytest.raises(NotInTopology):
        topology.peers_of(-1)


def test_nothing_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing is known"):
        build(())


def test_plain_topology_value_still_answers() -> None:
    topology = Topology(run="r", attempt=0, world_size=3)
    assert topology.ranks == (0, 1, 2) and topology.peers_of(1) == (0, 2) and topology.groups_of(1) == ()


@given(
    tp=st.sampled_from((1, 2, 4)),
    cp=st.sampled_from((1, 2)),
    dp=st.sampled_from((1, 2, 4)),
    pp=st.sampled_from((1, 2, 3)),
    ep=st.sampled_from((1, 2)),
    gone=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_what_ranks_report_makes_the_layout_again(
    tp: int, cp: int, dp: int, pp: int, ep: int, gone: int
) -> None:
    world = tp * cp * dp * pp
    if dp * cp % ep or world < 2:
        return
    layout = megatron(world, tp=tp, cp=cp, pp=pp, ep=ep)
    heard = records(layout)[min(gone, world - 1) :]
    topology = build(heard)
    for kind in ("tp", "cp", "dp", "pp", "ep", "edp"):
        rows = [group.ranks for group in topology.groups if group.kind == kind]
        if kind in layout.kinds and layout.members(kind).shape[1] > 1 and not gone:
            assert rows == [tuple(row) for row in sorted(layout.members(kind).tolist())]
            assert sorted(rank for row in rows for rank in row) == list(range(world))
    if not gone:
        assert len(set(topology.coords.values())) == len(topology.coords) == world
        names, coords = layout.coords()
        for rank in range(world):
            told = dict(zip(names, coords[rank], strict=True))
            assert all(told[name] == at for name, at in topology.coordinates_of(rank).items())
    assert not topology.conflicts


def test_the_service_path_needs_no_graph_library() -> None:
    code = (
        "import sys, argus.topology.layout, argus.topology.fleet, argus.topology.scope;"
        "print([name for name in ('networkx', 'yaml', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
