"""Kernels of experts are compared between ranks that hold the same ones: experts get other numbers of tokens for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.kernels.effects import effects_of_all
from argus.analytics.kernels.peers import Peers, classes
from argus.analytics.peers import classes_of_kind, expert_classes
from argus.analytics.window import Window
from argus.topology.groups import Group
from argus.topology.layout import Topology
from tests.analytics.kernels.jobs import Durations, Trouble, advances, flat
from tests.analytics.kernels.kit import healthy, table_of
from tests.analytics.kernels.test_incidents import KERNELS

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


MANY = (*KERNELS[:5], *((f"{GROUPED}_{i}", "compute", 40.0) for i in range(6)))
"""More kernels of experts than others."""


@pytest.mark.slow
@pytest.mark.parametrize("ep", [8, 16])
@pytest.mark.parametrize("factor", [1.15, 1.3])
def test_a_slow_device_is_told_and_not_the_one_that_holds_the_same_experts(ep: int, factor: float) -> None:
    """Two ranks or one hold them: of two nobody can say which is slow, of one nobody can say anything."""

    def trouble(
        _rng: np.random.Generator, rank: int, kernel: str, _window: Window, took: Durations
    ) -> Durations:
        return took * (factor if rank == 3 else 1.0)

    *_, last = advances(trouble, ranks=16, steps=STEPS, ep=ep, kernels=MANY)
    assert {rank for finding in last.findings if finding.role == "culprit" for rank in finding.ranks} == {3}
    (incident,) = last.state.incidents
    (finding,) = [f for f in last.findings if (f.measure("breadth") or 0.0) > 1.0]
    assert incident.cause.suspects == (3,) and finding.ratio == pytest.approx(factor, rel=0.01)


@pytest.mark.slow
def test_all_holders_of_some_experts_may_just_have_more_tokens_whatever_their_kernels_are_called() -> None:
    def trouble(
        _rng: np.random.Generator, rank: int, kernel: str, _window: Window, took: Durations
    ) -> Durations:
        return took * (1.4 if rank % EP == 1 and kernel == "ampere_gemm_128" else 1.0)

    *_, last = advances(trouble, ranks=32, steps=STEPS, ep=EP)
    (incident,) = last.state.incidents
    assert set(incident.cause.suspects) == set(range(1, 32, EP))
    assert (incident.cause.verdict, incident.cause.second_best) == ("INCONCLUSIVE", "compute.slow")


def test_two_are_compared_with_each_other_and_one_with_nobody() -> None:
    def draw(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
        return healthy(rng, rank, kernel) * (1.25 if rank == 1 else 1.0)

    table = table_of(draw, ranks=3, seed=1)
    effects = effects_of_all(table, classes(np.arange(3), np.array([0, 0, 1])))
    assert np.exp(effects.shift[:, 1]) == pytest.approx(1.25, rel=0.03)
    assert np.exp(effects.shift[:, 0]) == pytest.approx(1 / 1.25, rel=0.03)
    assert np.isnan(effects.shift[:, 2]).all() and (effects.total_ns[:, 2] > 0).all()


def groups(*sorts: tuple[str, Sequence[Sequence[int]]]) -> Topology:
    """Eight ranks in these groups by kind."""
    made = tuple(
        Group(id=f"{kind}/{n}", kind=kind, desc=kind, ranks=tuple(ranks))
        for kind, some in sorts
        for n, ranks in enumerate(some)
    )
    return replace(flat(8, 10)[0], groups=made)


HALVES, WHOLE = ((0, 1, 2, 3), (4, 5, 6, 7)), (range(8),)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (groups(("dp", HALVES), ("edp", HALVES)), None),  # Megatron-LM makes those of dense models too
        (groups(("dp", HALVES), ("ep", [[r] for r in range(8)]), ("edp", HALVES)), None),
        (groups(("dp", WHOLE), ("edp", HALVES)), [0, 0, 0, 0, 1, 1, 1, 1]),
        (groups(("dp", WHOLE), ("ep", HALVES)), [0, 1, 2, 3, 0, 1, 2, 3]),
        (groups(("dp", WHOLE), ("ep", HALVES[:1])), [0, 1, 2, 3, 4, 5, 6, 7]),  # the others' are not known
    ],
)
def test_who_holds_the_same_experts(topology: Topology, expected: list[int] | None) -> None:
    found = expert_classes(topology, np.arange(8))
    assert (None if found is None else found.tolist()) == expected


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
