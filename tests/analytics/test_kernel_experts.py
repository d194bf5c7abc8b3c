"""Kernels of experts are compared between ranks that hold the same ones: experts get other numbers of tokens for good."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from argus.analytics.kernel_peers import Peers, classes
from argus.analytics.peers import classes_of_kind, expert_classes
from argus.analytics.window import Window
from tests.analytics.kernel_jobs import Durations, Trouble, advances, flat
from tests.analytics.test_kernel_incidents import KERNELS

GROUPED = "moe_grouped_gemm"
EXPERTS = (*KERNELS[:6], (GROUPED, "compute", 100.0), ("ncclAllToAll", "comm:ep", 80.0))
STEPS, EP = 60, 4
LOADS = (0.6, 1.4, 1.0, 1.0)
"""Of the ranks along an expert-parallel group, for as long as the job lasts."""


def routed(sick: Mapping[int, float]) -> Trouble:
    """Uneven experts on every rank; some ranks are slow in them besides."""

    def trouble(
        _rng: np.random.Generator, rank: int, kernel: str, _window: Window, took: Durations
    ) -> Durations:
        return took * LOADS[rank % len(LOADS)] * sick.get(rank, 1.0) if kernel == GROUPED else took

    return trouble


def accused(trouble: Trouble, *, ranks: int, ep: int) -> list[set[int]]:
    """Ranks that L3 finds guilty of slow kernels, window by window."""
    return [
        {
            rank
            for finding in step.findings
            if finding.level == "L3" and finding.role == "culprit"
            for rank in finding.ranks
        }
        for step in advances(trouble, ranks=ranks, steps=STEPS, ep=ep, kernels=EXPERTS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "ep"), [(32, 4), (8, 4), (8, 8)])
def test_experts_that_get_more_tokens_for_good_accuse_nobody(ranks: int, ep: int) -> None:
    """Eight, two and one rank hold the same experts."""
    assert not set().union(*accused(routed({}), ranks=ranks, ep=ep))


@pytest.mark.slow
@pytest.mark.parametrize("sick", [{4: 1.3}, {10: 1.3, 11: 1.3}])
def test_a_rank_slower_than_the_holders_of_the_same_experts_is_told(sick: Mapping[int, float]) -> None:
    """Also where its experts get so little that it is the fastest of its data-parallel group."""
    assert accused(routed(sick), ranks=32, ep=EP)[-1] == set(sick)


def test_classes_follow_the_experts_and_other_kernels_the_replicas() -> None:
    topology, _ = flat(8, 10, ep=4)
    ranks = np.arange(8)
    assert classes_of_kind(topology, ranks, kind="GEMM").tolist() == [0] * 8
    assert classes_of_kind(topology, ranks, kind="grouped GEMM").tolist() == [0, 1, 2, 3] * 2
    assert expert_classes(flat(8, 10)[0], ranks) is None


def test_each_kernel_has_its_classes() -> None:
    ranks = np.arange(4)
    peers = Peers(
        **vars(classes(ranks, np.zeros(4, np.int64)))
        | {"experts": classes(ranks, ranks % 2), "of_experts": np.array([False, True, False])}
    )
    seen = [
        (np.arange(2)[places].tolist(), members.tolist())
        for places, members in peers.by_class(np.array([2, 1]))
    ]
    assert seen == [([0], [0, 1, 2, 3]), ([1], [0, 2]), ([1], [1, 3])]
    assert peers.num_peers(np.array([2, 1])).tolist() == [[4] * 4, [2] * 4]
    assert [members.tolist() for _, members in peers.by_class()] == [[0, 1, 2, 3]]
    assert peers.of_kernel(1) is peers.experts and peers.of_kernel(0) is peers
