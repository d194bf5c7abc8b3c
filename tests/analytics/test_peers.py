"""Who is compared with whom."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.peers import across_models, class_sizes, peer_medians, without_peers, work_classes
from argus.topology.groups import Group
from argus.topology.layout import Topology


def topology(
    world: int, *groups: tuple[str, tuple[int, ...]], models: dict[int, str] | None = None
) -> Topology:
    made = tuple(
        Group(id=f"{kind}/{number}", kind=kind, desc=kind, ranks=ranks)
        for number, (kind, ranks) in enumerate(groups)
    )
    return Topology(run="r", attempt=0, world_size=world, groups=made, gpu_models=models or {})


def same(classes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(classes == number).tolist()) for number in np.unique(classes)}


def test_replicas_of_one_shard_are_peers() -> None:
    layout = topology(6, ("dp", (0, 2, 4)), ("dp", (1, 3, 5)), ("tp", (0, 1)), ("tp", (2, 3)), ("tp", (4, 5)))
    assert same(work_classes(layout, np.arange(6))) == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


def test_two_replicas_are_compared_with_their_whole_stage() -> None:
    layout = topology(4, ("dp", (0, 2)), ("dp", (1, 3)), ("tp", (0, 1)), ("tp", (2, 3)))
    assert same(work_classes(layout, np.arange(4))) == {frozenset(range(4))}


def test_stages_of_a_pipeline_are_no_peers() -> None:
    layout = topology(4, ("pp", (0, 2)), ("pp", (1, 3)), ("tp", (0, 1)), ("tp", (2, 3)))
    assert same(work_classes(layout, np.arange(4))) == {frozenset({0, 1}), frozenset({2, 3})}


def test_other_gpus_are_no_peers() -> None:
    layout = topology(4, ("world", (0, 1, 2, 3)), models={0: "A", 1: "A", 2: "B", 3: "B"})
    assert same(work_classes(layout, np.arange(4))) == {frozenset({0, 1}), frozenset({2, 3})}


@pytest.mark.parametrize(
    ("models", "classes"),
    [
        ("AAAB", {(0, 1, 2, 3)}),  # the only one of its model is compared with the others
        ("ABCD", {(0, 1, 2, 3)}),  # and so are all, where no two are alike
        ("AABB", {(0, 1), (2, 3)}),
        ("AAAABBBB", {(0, 1, 2, 3), (4, 5, 6, 7)}),
        ("AAAABBBC", {(0, 1, 2, 3, 7), (4, 5, 6)}),
        ("AAB", {(0, 1), (2,)}),  # of two healthy ranks each would look slow beside a faster third
        ("AAABC", {(0, 1, 2), (3,), (4,)}),
        ("AAAA?", {(0, 1, 2, 3, 4)}),
        ("AB??", {(0, 1), (2, 3)}),  # missing ranks tell no model
        ("????", {(0, 1, 2, 3)}),
    ],
)
def test_the_only_one_of_its_model(models: str, classes: set[tuple[int, ...]]) -> None:
    told = {rank: model.replace("?", "") for rank, model in enumerate(models)}
    layout = topology(len(models), ("world", tuple(range(len(models)))), models=told)
    assert same(work_classes(layout, np.arange(len(models)))) == {frozenset(each) for each in classes}


def test_who_is_compared_with_other_models_stays_so_when_ranks_are_missing() -> None:
    layout = topology(8, ("world", tuple(range(8))), models=dict(enumerate("AAAABBBB")))
    assert same(work_classes(layout, np.array([0, 1, 2, 3, 7]))) == {frozenset({0, 1, 2, 3}), frozenset({4})}
    assert not across_models(layout)


def test_who_is_compared_with_other_models_alone_is_told() -> None:
    models = dict(enumerate("AAAABBBC"))
    layout = topology(9, ("world", tuple(range(9))), models={**models, 8: ""})
    assert across_models(layout) == {7: ("A",)}
    assert across_models(topology(2, models={0: "A", 1: "B"})) == {0: ("B",), 1: ("A",)}


def test_medians_leave_out_the_rank_itself_and_the_missing() -> None:
    values = np.array([1.0, 2.0, np.nan, 9.0])
    medians = peer_medians(values, np.zeros(4, np.int64))
    assert medians[[0, 1, 3]] == pytest.approx([5.5, 5.0, 1.5]) and np.isnan(medians[2])
    assert class_sizes(np.array([0, 0, 0, 1]), np.isfinite(values)).tolist() == [2, 2, 2, 1]


def test_a_rank_without_peers_is_not_compared() -> None:
    assert np.isnan(peer_medians(np.array([1.0, 2.0]), np.array([0, 1]))).all()


@pytest.mark.parametrize(
    ("models", "alone"),
    [("AAB", (2,)), ("AAABC", (3, 4)), ("AAAB", ()), ("ABCD", ()), ("AABB", ()), ("AAAA", ()), ("??", ())],
)
def test_ranks_that_only_their_gpu_model_leaves_without_peers(models: str, alone: tuple[int, ...]) -> None:
    known = {rank: model for rank, model in enumerate(models) if model != "?"}
    assert without_peers(topology(len(models), models=known)) == alone


def test_a_stage_of_one_rank_has_no_peers_of_any_model() -> None:
    layout = topology(3, ("pp", (0, 1, 2)), models={0: "A", 1: "A", 2: "B"})
    assert without_peers(layout) == ()
