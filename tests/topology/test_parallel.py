"""Parallel layouts against the worked tables, a naive generator and the laws of a grid."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.topology.axes import Axes
from argus.topology.megatron import chunks_of, layers_of, megatron
from argus.topology.parallel import (
    TP_PP_DP_ORDER,
    Parallel,
    deepspeed,
    device_mesh,
    torchtitan,
)

SIZES = st.sampled_from((1, 2, 3, 4))
ORDERS = ("tp-cp-ep-dp-pp", "tp-ep-dp-cp-pp", "tp-cp-ep-pp-dp", "dp-tp-cp-ep-pp", "cp-tp-dp-ep-pp")


def members(layout: Parallel, kind: str) -> list[list[int]]:
    return [list(map(int, row)) for row in layout.members(kind)]


def test_worked_table_tp2_pp4() -> None:
    layout = megatron(16, tp=2, pp=4)
    assert members(layout, "tp") == [[r, r + 1] for r in range(0, 16, 2)]
    assert members(layout, "dp") == [
        [0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]
    ]  # fmt: skip
    assert members(layout, "pp") == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]


def test_worked_table_experts() -> None:
    layout = megatron(16, tp=2, pp=2, ep=4, etp=1)
    assert members(layout, "ep") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert members(layout, "edp") == [
        [0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]
    ]  # fmt: skip
    assert members(layout, "dp") == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]


def test_worked_table_context_parallel() -> None:
    layout = megatron(16, tp=2, cp=2, pp=2)
    assert members(layout, "cp")[:3] == [[0, 2], [1, 3], [4, 6]]
    assert members(layout, "dp")[:3] == [[0, 4], [1, 5], [2, 6]]
    assert members(layout, "dp_cp")[:2] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_worked_table_pp_before_dp() -> None:
    layout = megatron(16, tp=2, pp=4, order=TP_PP_DP_ORDER)
    assert members(layout, "pp")[0] == [0, 2, 4, 6]
    assert members(layout, "dp")[:2] == [[0, 8], [1, 9]]


def test_virtual_pipeline_chunks() -> None:
    held = [layers_of(chunk, num_layers=16, pp=4, virtual=2) for chunk in chunks_of(0, pp=4, virtual=2)]
    assert held == [(1, 2), (9, 10)]


def test_partial_optimizer_instances_cut_the_gradient_group() -> None:
    layout = megatron(16, tp=2, optimizer_instances=2)
    assert layout.extra["dp_cp_intra"][0] == (0, 2, 4, 6)
    assert layout.extra["dp_cp_inter"][0] == (0, 8)
    assert sorted(r for row in layout.extra["dp_cp_inter"] for r in row) == list(range(16))


def test_embedding_group_is_first_and_last_stage() -> None:
    assert megatron(16, tp=2, pp=4).extra["embd"][0] == (0, 12)


def naive_groups(order: str, sizes: dict[str, int], kind: tuple[str, ...]) -> list[list[int]]:
    """Groups by walking every coordinate: the order string's first word varies fastest."""
    words = [word for word in order.split("-") if word in sizes]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coords in enumerate(product(*(range(sizes[word]) for word in reversed(words)))):
        at = dict(zip(reversed(words), coords, strict=True))
        groups.setdefault(tuple(at[word] for word in words if word not in kind), []).append(rank)
    return sorted(groups.values())


@given(tp=SIZES, cp=SIZES, dp=SIZES, pp=SIZES, order=st.sampled_from(ORDERS))
@settings(max_examples=60, deadline=None)
def test_dense_groups_equal_the_naive_generator(tp: int, cp: int, dp: int, pp: int, order: str) -> None:
    sizes = {"tp": tp, "cp": cp, "dp": dp, "pp": pp}
    world = tp * cp * dp * pp
    if not order.endswith("pp") and pp > 1 and cp > 1:
        return  # experts would differ from the dense layers, which Megatron refuses
    layout = megatron(world, tp=tp, cp=cp, pp=pp, order=order)
    for kind, along in (("tp", ("tp",)), ("dp_cp", ("dp", "cp")), ("pp", ("pp",)), ("mp", ("tp", "pp"))):
        assert sorted(members(layout, kind)) == naive_groups(order, sizes, along)


@given(etp=st.sampled_from((1, 2)), ep=SIZES, edp=SIZES, pp=st.sampled_from((1, 2)))
@settings(max_examples=40, deadline=None)
def test_expert_groups_equal_the_naive_generator(etp: int, ep: int, edp: int, pp: int) -> None:
    world = etp * ep * edp * pp
    layout = megatron(world, tp=1, pp=pp, ep=ep, etp=etp)
    if "ep" not in layout.kinds:
        return
    order = "etp-ep-edp-pp"
    for kind in ("ep", "edp", "etp"):
        sizes = {"etp": etp, "ep": ep, "edp": edp, "pp": pp}
        assert sorted(members(layout, kind)) == naive_groups(order, sizes, (kind,))


@given(tp=SIZES, cp=SIZES, dp=SIZES, pp=SIZES, instances=st.sampled_from((1, 2)))
@settings(max_examples=40, deadline=None)
def test_groups_partition_and_coordinates_are_a_bijection(
    tp: int, cp: int, dp: int, pp: int, instances: int
) -> None:
    world = tp * cp * dp * pp
    layout = megatron(
        world, tp=tp, cp=cp, pp=pp, optimizer_instances=instances if not dp * cp % instances else 1
    )
    for kind in layout.kinds:
        assert sorted(rank for row in members(layout, kind) for rank in row) == list(range(world))
    names, coords = layout.coords()
    assert len(set(coords)) == world
    dense = layout.grids[0]
    for rank in range(world):
        at = dict(zip(names, coords[rank], strict=True))
        assert dense.rank_at({name: at[name] for name in dense.names}) == rank


@given(st.lists(SIZES, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_any_mesh_partitions_along_any_dimensions(sizes: list[int]) -> None:
    names = tuple(f"d{i}" for i in range(len(sizes)))
    grid = Axes(names=names, sizes=tuple(sizes))
    for along in (names[:1], names[-1:], names[::2], names):
        table = grid.groups(*along)
        assert sorted(table.reshape(-1).tolist()) == list(range(grid.world_size))
        assert all(row == sorted(row) for row in table.tolist())


def test_torchtitan_order_and_experts() -> None:
    layout = torchtitan(16, pp=2, dp_replicate=2, dp_shard=2, tp=2, ep=2)
    assert members(layout, "tp")[0] == [0, 1]
    assert members(layout, "dp_shard")[0] == [0, 2]
    assert members(layout, "dp_replicate")[0] == [0, 4]
    assert members(layout, "pp")[0] == [0, 8]
    assert members(layout, "dp")[0] == [0, 2, 4, 6]
    assert members(layout, "ep")[0] == [0, 1]


def test_deepspeed_axes_equal_megatron_dense() -> None:
    theirs = deepspeed((("pipe", 2), ("data", 4), ("model", 2)))
    ours = megatron(16, tp=2, pp=2)
    for kind in ("tp", "dp", "pp"):
        assert members(theirs, kind) == members(ours, kind)


def test_hybrid_shard_has_replicas_shards_and_the_whole() -> None:
    layout = device_mesh((("dp_replicate", 2), ("dp_shard", 4)), flatten={"dp": ("dp_replicate", "dp_shard")})
    assert members(layout, "dp_replicate")[0] == [0, 4]
    assert members(layout, "dp") == [list(range(8))]


@pytest.mark.parametrize(
    ("world", "sizes", "word"),
    [
        (10, {"tp": 4}, "divisible"),
        (8, {"tp": 0}, "at least 1"),
        (16, {"pp": 2, "order": "tp-dp"}, "leaves out"),
    ],
)
def test_sizes_that_do_not_fit_are_named(world: int, sizes: dict[str, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        megatron(world, **sizes)  # type: ignore[arg-type]


def test_unknown_dimension_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there are pp, tp"):
        device_mesh((("pp", 2), ("tp", 2))).grids[0].groups("dp")
