"""L3 on kernels: laws of the comparison, and the cases that fooled simpler rules."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.effects import effects_of_all
from argus.analytics.kernels.match import compare
from argus.analytics.kernels.paper import paper_flags, paper_scores
from argus.analytics.kernels.peers import classes
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import dense, open_table
from argus.analytics.kernels.tail import LEAST, healthy_tail
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import (
    NUM_KERNELS,
    Durations,
    digests,
    healthy,
    in_turn,
    modes,
    named,
    peers_of,
    table_of,
    votes_of,
)

Rng = np.random.Generator
SICK, KERNEL = 5, 3


def slow(factor: float, *ranks: int, kernel: int = KERNEL) -> object:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        durations = healthy(rng, rank, k)
        return durations * factor if rank in ranks and k == kernel else durations

    return draw


def effect(draw: object, rank: int, *, ranks: int = 32) -> tuple[float, float]:
    """Shift and tail of one rank on the studied kernel."""
    table = table_of(draw, ranks=ranks, seed=0)  # type: ignore[arg-type]
    place = next(i for i, key in enumerate(table.kernels) if table.text(key[0]) == f"gemm_{KERNEL}")
    one = compare(dense(table, place, last=place + 1)[0], peers_of(ranks))
    return float(np.exp(one.shift[rank])), float(one.tail[rank])


def test_a_slowdown_by_exactly_the_ratio_of_two_modes_is_a_slowdown() -> None:
    got, _ = effect(slow(2.0, SICK), SICK)
    assert got == pytest.approx(2.0, rel=0.03)


def test_one_rank_split_into_a_mode_more_is_compared_as_a_whole() -> None:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        if rank == SICK and k == KERNEL:  # the first mode falls apart, its mean stays
            return np.concatenate([modes(rng, 13 * 0.9, 13 * 1.1, n=100), modes(rng, 26.0)])
        return healthy(rng, rank, k)

    assert effect(draw, SICK)[0] == pytest.approx(1.0, abs=0.02)

    def sick(rng: Rng, rank: int, k: int) -> Durations:
        return draw(rng, rank, k) * (1.15 if rank == SICK and k == KERNEL else 1.0)

    assert effect(sick, SICK)[0] == pytest.approx(1.15, abs=0.03)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_another_mix_of_the_modes_neither_is_nor_drowns_a_slowdown(share: float) -> None:
    def mixed(factor: float) -> object:
        def draw(rng: Rng, rank: int, k: int) -> Durations:
            if rank == SICK and k == KERNEL:
                first = round(400 * share)
                return factor * np.concatenate([modes(rng, 13.0, n=first), modes(rng, 26.0, n=400 - first)])
            return healthy(rng, rank, k)

        return draw

    assert effect(mixed(1.0), SICK)[0] == pytest.approx(1.0, abs=0.02)
    assert effect(mixed(1.1), SICK)[0] == pytest.approx(1.1, abs=0.03)


def test_a_larger_slowdown_has_a_larger_effect() -> None:
    got = [effect(slow(factor, SICK), SICK)[0] for factor in (1.0, 1.05, 1.1, 1.5, 3.0)]
    assert got == sorted(got)


def test_a_healthy_job_has_no_candidates() -> None:
    digest, votes = votes_of(healthy)
    assert digest.found is not None
    assert not votes.shift.any() and not votes.tail.any() and not votes.device.any()


def test_one_slow_kernel_on_one_rank_is_named_and_nothing_else() -> None:
    digest, votes = votes_of(slow(1.1, SICK))  # type: ignore[arg-type]
    assert named(digest, votes.shift) == {(f"gemm_{KERNEL}", SICK)}
    assert not votes.device.any()


def test_all_kernels_slow_by_one_factor_are_the_device() -> None:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        return healthy(rng, rank, k) * (1.1 if rank == SICK else 1.0)

    digest, votes = votes_of(draw)
    assert digest.ranks[votes.device].tolist() == [SICK]


def test_one_window_is_not_enough_unless_it_is_gross() -> None:
    assert not votes_of(slow(1.1, SICK), windows=1)[1].shift.any()  # type: ignore[arg-type]
    digest, votes = votes_of(slow(2.0, SICK), windows=1)  # type: ignore[arg-type]
    assert named(digest, votes.shift) == {(f"gemm_{KERNEL}", SICK)}


def test_one_device_far_out_does_not_hide_the_slower_third_of_the_others() -> None:
    sick = dict.fromkeys(range(0, 48, 2), 1.1) | {63: 1.5}

    def draw(rng: Rng, rank: int, k: int) -> Durations:
        return healthy(rng, rank, k) * sick.get(rank, 1.0)

    digest, votes = votes_of(draw, ranks=64)
    assert set(digest.ranks[votes.device].tolist()) == set(sick)


def test_one_rank_far_out_in_a_kernel_does_not_hide_the_slower_third_of_the_others() -> None:
    sick = dict.fromkeys(range(0, 48, 2), 1.1) | {63: 1.5}

    def draw(rng: Rng, rank: int, k: int) -> Durations:
        return healthy(rng, rank, k) * (sick.get(rank, 1.0) if k == KERNEL else 1.0)

    digest, votes = votes_of(draw, ranks=64)
    assert named(digest, votes.shift) == {(f"gemm_{KERNEL}", rank) for rank in sick}


def test_another_mix_of_launches_is_not_gross() -> None:
    """Of twenty launches nearly all are long now and then, and the few others no mode of their own."""

    def draw(rng: Rng, rank: int, k: int) -> Durations:
        is_long = rng.random(20) < rng.uniform(0.3, 0.7)
        return modes(rng, 100.0, n=20, sigma=0.03) * np.where(is_long, 3.0, 1.0)

    for now in digests(draw, ranks=64, windows=20, peers=classes(np.arange(64), np.arange(64) // 8)):
        assert not vote(now.after([]), [], settings=Settings()).shift.any()


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_half_of_the_peers_slow_are_the_slower_of_two_populations(share: float) -> None:
    sick = tuple(range(0, 32, round(1 / share)))
    digest, votes = votes_of(slow(1.2, *sick))  # type: ignore[arg-type]
    assert {rank for _, rank in named(digest, votes.shift)} == set(sick)


def test_most_peers_turning_slow_is_seen_against_their_own_past() -> None:
    sick = set(range(26))
    calm = digests(healthy, windows=4)
    after = digests(slow(1.2, *sick), windows=2)  # type: ignore[arg-type]
    seen = in_turn([*calm, *after])
    votes = vote(seen[-1], seen[:-1], settings=Settings())
    assert {rank for _, rank in named(seen[-1], votes.shift)} == sick


def test_a_rank_that_recovers_makes_nobody_else_slow() -> None:
    sick = digests(slow(1.5, SICK), ranks=8, windows=5)  # type: ignore[arg-type]
    well = digests(healthy, ranks=8, windows=2)
    for last in (1, 2):
        seen = in_turn([*sick, *well[:last]])
        assert not vote(seen[-1], seen[:-1], settings=Settings()).shift.any()


def test_a_rare_tail_is_a_tail_and_no_shift() -> None:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        durations = healthy(rng, rank, k)
        hit = rng.random(len(durations)) < 0.03
        return np.where(hit, durations * 8, durations) if rank == SICK and k == KERNEL else durations

    digest, votes = votes_of(draw)
    assert named(digest, votes.tail) == {(f"gemm_{KERNEL}", SICK)}
    assert not votes.shift.any()


def test_spikes_that_fall_on_everybody_accuse_nobody() -> None:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        durations = healthy(rng, rank, k)
        return np.where(rng.random(len(durations)) < 5e-4, durations * 40, durations)

    _, votes = votes_of(draw, ranks=64)
    assert not votes.tail.any() and not votes.shift.any()


def test_few_peers_are_judged_by_ratio() -> None:
    assert not votes_of(slow(1.1, 1), ranks=4)[1].shift.any()  # type: ignore[arg-type]
    digest, votes = votes_of(slow(1.4, 1), ranks=4)  # type: ignore[arg-type]
    assert named(digest, votes.shift) == {(f"gemm_{KERNEL}", 1)}


def test_ranks_are_compared_with_their_own_class_only() -> None:
    def draw(rng: Rng, rank: int, k: int) -> Durations:
        return (
            healthy(rng, rank, k)
            * (3.0 if rank % 2 else 1.0)
            * (1.15 if rank == SICK and k == KERNEL else 1.0)
        )

    peers = classes(np.arange(32), np.arange(32) % 2)
    seen = digests(draw, peers=peers)
    votes = vote(seen[-1], seen[:-1], settings=Settings())
    assert named(seen[-1], votes.shift) == {(f"gemm_{KERNEL}", SICK)}


def test_renaming_ranks_renames_what_is_found() -> None:
    plain = effects_of_all(table_of(slow(1.2, SICK), ranks=16, seed=1), peers_of(16))  # type: ignore[arg-type]
    assert plain.shift.shape == (NUM_KERNELS, 16)
    order = np.random.default_rng(0).permutation(16)
    table = table_of(slow(1.2, SICK), ranks=16, seed=1)  # type: ignore[arg-type]
    one = dense(table, 0, last=1)[0]
    moved = type(one)(
        key=one.key,
        **{
            name: getattr(one, name)[:, order]
            for name in ("count", "log_p50", "log_p99", "log_max", "log_mean")
        },
    )
    assert np.allclose(compare(moved, peers_of(16)).shift, compare(one, peers_of(16)).shift[order], atol=1e-6)


def test_the_published_rule_fires_on_healthy_ranks_and_is_blind_to_half() -> None:
    table = table_of(healthy, ranks=64, seed=0)
    peers = peers_of(64)
    kernels = dense(table, 0, last=NUM_KERNELS)
    healthy_flags = sum(int(paper_flags(paper_scores(one, peers), peers).sum()) for one in kernels)
    assert healthy_flags > 0
    half = tuple(range(0, 64, 2))
    table = table_of(slow(1.5, *half), ranks=64, seed=0)  # type: ignore[arg-type]
    place = next(i for i, key in enumerate(table.kernels) if table.text(key[0]) == f"gemm_{KERNEL}")
    one = dense(table, place, last=place + 1)[0]
    assert paper_flags(paper_scores(one, peers), peers)[list(half)].mean() < 0.2


def test_what_a_table_refuses_is_counted() -> None:
    good = table_of(healthy, ranks=4, seed=0)
    assert not good.refused
    table = open_table([b"", b"AKB" + bytes(60), b"nonsense" * 20])
    assert sum(table.refused.values()) == 3 and table.kernels == ()


def test_thresholds_follow_the_tail_and_sick_ranks_do_not_raise_them() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(200, 200)).astype(np.float32)
    sick = normal.copy()
    sick[:, 7] += 30
    sick[11, ::5] += 30
    heavy = rng.standard_t(3, size=(200, 200)).astype(np.float32)
    limit = healthy_tail(normal).threshold(1e-9)
    assert LEAST <= limit < 9.0
    assert healthy_tail(sick).threshold(1e-9) == pytest.approx(limit, rel=0.05)
    assert healthy_tail(heavy).threshold(1e-9) > 2 * limit
    assert healthy_tail(normal[:1, :5]).threshold(1e-9) >= LEAST
    assert healthy_tail(normal).log10_probability(5.0) < healthy_tail(normal).log10_probability(4.0) < 0
