"""The least slowdown that is told: small where the peers lie close together, and never by what few of them hide."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.average import Average, Parts, averaged
from argus.analytics.kernels.scan import least_effect, peer_spread
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import Durations, candidates, digests, healthy, named, peers_of

KERNELS, SICK = 6, 5
SETTINGS = Settings()


def gate(deviation: float, *, ranks: int, share: float = 0.2, is_compute: bool = True) -> float:
    """Least effect, as a ratio less one, of a kernel whose ranks lie so far apart."""
    effects = deviation * np.random.default_rng(ranks).standard_normal((1, ranks)).astype(np.float32)
    least = least_effect(
        np.array([share], np.float32),
        peer_spread(effects),
        is_compute=np.array([is_compute]),
        probability=3e-11,
        settings=SETTINGS,
    )
    return float(np.expm1(least[0, 0]))


def test_it_grows_with_the_spread_and_falls_with_peers_and_share_within_its_bounds() -> None:
    by_spread = [gate(deviation, ranks=64) for deviation in (0.0001, 0.0015, 0.002, 0.003, 0.1)]
    by_peers = [gate(0.002, ranks=ranks) for ranks in (8, 64, 1024)]
    by_share = [gate(0.0001, ranks=64, share=share) for share in (0.005, 0.01, 0.1)]
    for rising in (by_spread, by_peers[::-1], by_share[::-1]):
        assert rising == sorted(rising) and rising[0] < rising[-1]
    every = [*by_spread, *by_peers, *by_share]
    assert min(every) == pytest.approx(SETTINGS.clear) and max(every) == pytest.approx(SETTINGS.effect)


def test_less_lost_time_than_the_smallest_kernel_may_lose_is_never_told() -> None:
    for share in (0.005, 0.0075, 0.01, 0.014):
        assert share * gate(0.0001, ranks=64, share=share) == pytest.approx(0.03 * 0.005)


def test_communication_and_nobody_at_all_keep_the_larger_one() -> None:
    assert gate(0.0001, ranks=64, is_compute=False) == pytest.approx(SETTINGS.effect)
    alone = peer_spread(np.full((1, 8), np.nan, np.float32))
    assert not alone.robust.any() and not alone.sharp.any()


def lasting(seed: int, *, ranks: int, sick: float = 0.0) -> Average:
    """Three windows of kernels in which every chip differs lastingly by 0.6 %, one by `sick` besides."""
    effects = 0.006 * np.random.default_rng(seed).standard_normal((KERNELS, ranks)).astype(np.float32)
    effects[0, SICK] += sick
    half, factor = effects.astype(np.float16), np.zeros(ranks, np.float32)
    windows = [Parts(p50=half, mean=half, top=half, factor=factor)] * 3
    zero: Reals = np.zeros_like(effects)
    found = candidates(zero, factor=factor)
    return averaged(windows, found, peers_of(ranks), noise=zero, mean=zero, settings=SETTINGS)


@pytest.mark.slow
def test_lasting_differences_of_few_chips_are_no_slowdowns() -> None:
    assert not any(lasting(seed, ranks=16).flags.any() for seed in range(150))
    assert lasting(0, ranks=16, sick=0.2).flags[0, SICK]


def by_two_per_cent(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    return healthy(rng, rank, kernel) * (1.02 if rank == SICK and kernel == 3 else 1.0)


@pytest.mark.slow
def test_two_per_cent_of_a_large_narrow_kernel_are_told() -> None:
    seen = digests(by_two_per_cent, ranks=64)
    assert named(seen[-1], vote(seen[-1], seen[:-1], settings=SETTINGS).shift) == {("gemm_3", SICK)}
