"""Scope of suspects: worked cases, the laws of the answer, and 500 injected causes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.topology.explain import chance, tails
from argus.topology.fleet import rename
from argus.topology.names import NotInTopology
from argus.topology.scope import (
    Scope,
    scope_of_groups,
    scope_of_pairs,
    shared_elements,
    smallest_scope,
)
from tests.topology.causes import cached_fleet, draw
from tests.topology.fleets import Shape

SMALL = Shape()
DRAWS = 500
MUST = 0.98


@pytest.mark.slow
@pytest.mark.long
def test_injected_causes_are_named() -> None:
    rng = np.random.default_rng(20_240_601)
    draws = [draw(rng) for _ in range(DRAWS)]
    wrong = [(d.kind, d.shape.world, d.truth) for d in draws if not d.is_right]
    assert 1 - len(wrong) / DRAWS >= MUST, (Counter(kind for kind, *_ in wrong), wrong)
    none = [d for d in draws if d.kind == "none"]
    told = [d for d in none if "no common cause" in d.scope.note]
    assert len(none) > 20 and len(told) >= MUST * len(none) - 1


def test_equal_elements_are_one_answer_in_the_order_of_the_nature() -> None:
    fleet = cached_fleet(SMALL)
    stage = fleet.ranks_of("stage:1")
    own = smallest_scope(fleet, stage, nature="self_time").causes
    wire = smallest_scope(fleet, stage, nature="transfer").causes
    assert len(own) == len(wire) == 1 and set(own[0].elements) == set(wire[0].elements) | set()
    assert own[0].element == "stage:1"


def test_copy_trouble_names_the_pcie_switch_first() -> None:
    fleet = cached_fleet(SMALL)
    alone = smallest_scope(fleet, [5], nature="copy")
    assert alone.causes[0].element == "gpu:h-0000/5" and "one suspect" in alone.note
    assert smallest_scope(fleet, [5], nature="self_time").causes[0].elements[1] == "rank:5"


def test_two_hosts_are_two_causes_not_their_switch() -> None:
    fleet = cached_fleet(SMALL)
    suspects = (*fleet.ranks_of("host:h-0000"), *fleet.ranks_of("host:h-0003"))
    scope = smallest_scope(fleet, suspects)
    assert [cause.element for cause in scope.causes] == ["host:h-0000", "host:h-0003"]
    assert scope.unexplained == ()


def test_scattered_suspects_have_no_common_cause() -> None:
    fleet = cached_fleet(SMALL)
    scope = smallest_scope(fleet, [1, 12, 30, 43, 59])
    assert not scope.found and "no common cause" in scope.note
    assert scope.unexplained == (1, 12, 30, 43, 59)


def test_shared_elements_rank_by_precision_recall_and_size() -> None:
    fleet = cached_fleet(SMALL)
    best, *others = shared_elements(fleet, fleet.ranks_of("half:h-0001/0"), limit=6)
    assert "half:h-0001/0" in best.elements and best.precision == best.recall == 1.0
    assert best.chance < 1e-3
    f1 = [2 * s.precision * s.recall / (s.precision + s.recall) for s in (best, *others)]
    assert f1 == sorted(f1, reverse=True)


def test_slow_groups_name_the_nic_all_of_them_cross() -> None:
    fleet = cached_fleet(Shape(nics_per_host=8, is_rail_optimised=True))
    nic = "nic:h-0002/mlx5_5"
    crossing = [fleet.comm_groups[i] for i in fleet.groups.items_of(fleet.groups.index[nic]).tolist()]
    assert smallest_scope(fleet, fleet.ranks_of(nic), nature="transfer").causes[0].element == nic
    scope = scope_of_groups(fleet, crossing)
    assert scope.causes[0].element == nic
    assert {scope.labels[at] for at in scope.suspects} == set(crossing)
    with pytest.raises(NotInTopology, match="close"):
        scope_of_groups(fleet, ["edp/999"])


def test_a_host_in_every_slow_pair_is_named_and_a_pair_only_fault_is_not_a_host() -> None:
    fleet = cached_fleet(SMALL)
    heads = [8 * host for host in range(8)]
    tested = [(a, b) for a in heads for b in heads if a < b]
    common = scope_of_pairs(fleet, [(a, b) for a, b in tested if 24 in (a, b)], tested=tested)
    assert "host:h-0003" in common.causes[0].elements
    only = scope_of_pairs(fleet, [(0, 16)], tested=tested)
    assert only.causes[0].element == "edge:host:h-0000--host:h-0002"
    assert [only.labels[at] for at in only.suspects] == ["0–16"]


def test_all_ranks_are_nothing_to_tell_apart() -> None:
    scope = smallest_scope(cached_fleet(SMALL), range(64))
    assert "group:world/0" in scope.causes[0].elements and "nothing to tell apart" in scope.note


@given(seed=st.integers(0, 1000), kind=st.sampled_from(("host", "half", "stage", "rail", "nic")))
@settings(max_examples=25, deadline=None)
def test_renaming_ranks_renames_the_answer(seed: int, kind: str) -> None:
    fleet = cached_fleet(SMALL)
    rng = np.random.default_rng(seed)
    new = rng.permutation(64).tolist()
    names = fleet.elements_of_kind(kind)
    suspects = fleet.ranks_of(names[seed % len(names)])
    suspects = (*suspects[1:], int(rng.integers(64))) if len(suspects) > 3 else suspects
    before = smallest_scope(fleet, suspects)
    after = smallest_scope(rename(fleet, new), [new[rank] for rank in suspects])
    assert as_members(after) == [sorted(new[rank] for rank in cause) for cause in as_members(before)]
    assert after.gain == pytest.approx(before.gain)


def as_members(scope: Scope) -> list[list[int]]:
    return [list(cause.members) for cause in scope.causes]


def test_chance_counts_every_candidate_tried() -> None:
    assert tails(2, 2, num_items=10)[2] == pytest.approx(1 / 45)
    one = chance(2, 2, total=2, num_items=10, sizes=np.array([2]))
    five = chance(2, 2, total=2, num_items=10, sizes=np.array([2] * 5))
    assert one == pytest.approx(1 / 45) and five == pytest.approx(1 - (1 - 1 / 45) ** 5)


@given(size=st.integers(1, 40), total=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_tails_are_a_distribution(size: int, total: int) -> None:
    tail = tails(size, total, num_items=40)
    assert tail[0] == pytest.approx(1.0) and (np.diff(tail) <= 1e-12).all()
    assert len(tail) == min(size, total) + 1


def test_wrong_questions_are_refused() -> None:
    fleet = cached_fleet(SMALL)
    with pytest.raises(ValueError, match="nature must be one of self_time, transfer, copy"):
        smallest_scope(fleet, [1], nature="weird")
    with pytest.raises(ValueError, match="at least one suspect"):
        smallest_scope(fleet, [])
    with pytest.raises(NotInTopology, match="rank 99"):
        smallest_scope(fleet, [1, 99])
