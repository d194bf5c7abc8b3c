"""Slowdowns that only the last windows together show: found in few ranks and wide durations, and nothing invented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from argus.analytics.kernels.average import Average, Parts, averaged
from argus.analytics.kernels.digest import KernelDigest
from argus.analytics.kernels.findings import _over_windows
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.votes import vote
from tests.analytics.kernels.kit import Durations, candidates, digests, named, peers_of

KERNELS, RANKS, SICK = 6, 64, 5
Reals = NDArray[np.float32]


def wide(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """One kernel over a mix of lengths, an eleven-fold range of durations; the others are narrow."""
    spread = rng.uniform(0.0, 2.4, 200) if kernel == 3 else 0.02 * rng.normal(size=200)
    return 2e4 * np.exp(spread) * (1.2 if rank == SICK and kernel == 3 else 1.0)


@pytest.fixture(scope="module")
def eight() -> list[KernelDigest]:
    return digests(wide, ranks=8)


def test_eight_ranks_of_a_wide_kernel_show_a_fifth_in_three_windows(eight: list[KernelDigest]) -> None:
    votes = vote(eight[-1], eight[:-1], settings=Settings())
    assert named(eight[-1], votes.shift) == {("gemm_3", SICK)}
    assert not vote(eight[-1], eight[:1], settings=Settings()).shift.any()  # one window less does not


def test_a_kernel_of_another_name_in_each_window_or_another_order_takes_nothing_from_the_others(
    eight: list[KernelDigest],
) -> None:
    anew = [replace(one, keys=(*one.keys[:-1], (10**6 + n, one.keys[-1][1]))) for n, one in enumerate(eight)]
    votes = vote(anew[-1], anew[:-1], settings=Settings())
    assert named(eight[-1], votes.shift) == {("gemm_3", SICK)}
    turned = [
        replace(
            one,
            keys=one.keys[::-1],
            devices=one.devices[::-1],
            parts=one.parts.rearranged(lambda half: half[::-1, ::-1], factor=one.parts.factor[::-1]),
        )
        for one in eight[:-1]
    ]
    same, other = (vote(eight[-1], past, settings=Settings()).together for past in (eight[:-1], turned))
    assert same is not None and other is not None
    assert np.array_equal(same.score, other.score, equal_nan=True)


def test_what_the_windows_show_together_is_told_with_their_size(eight: list[KernelDigest]) -> None:
    votes = vote(eight[-1], eight[:-1], settings=Settings())
    together = votes.together
    assert together is not None
    told = _over_windows(eight[-1], votes)
    assert told.effects is not None and told.found is not None
    assert np.allclose(told.found.score[together.flags], together.score[together.flags])
    assert np.exp(told.effects.shift[together.flags]) == pytest.approx([1.2], abs=0.06)
    assert _over_windows(eight[-1], replace(votes, together=None)) is eight[-1]


def noise(seed: int, *, shape: tuple[int, int] = (KERNELS, RANKS)) -> Reals:
    return (0.01 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def windows(*, p50: Reals, mean: Reals, factor: float = 0.0) -> list[Parts]:
    """Windows of noise; the sick rank's first kernel has the effects `p50` and `mean` (window,) beside it,
    all its kernels the `factor`."""
    out = []
    shared = np.where(np.arange(RANKS) == SICK, np.float32(factor), np.float32(0.0))
    for number in range(3):
        one = {name: noise(10 * number + i) for i, name in enumerate(("p50", "mean", "top"))}
        one["p50"][0, SICK] += p50[number]
        one["mean"][0, SICK] += mean[number]
        one["top"][0, SICK] += p50[number]
        out.append(
            Parts(
                **{name: (values + shared).astype(np.float16) for name, values in one.items()},
                factor=shared,
            )
        )
    return out


def judged(seen: list[Parts], *, is_compute: bool = True) -> Average:
    """The average of windows whose kernels are all heavy."""
    ranks = seen[0].p50.shape[1]
    zero = np.zeros((len(seen[0].p50), ranks), np.float32)
    found = candidates(zero, factor=seen[-1].factor, is_compute=is_compute)
    return averaged(seen, found, peers_of(ranks), noise=zero, mean=zero, settings=Settings())


def each(*values: float) -> Reals:
    return np.array(values, np.float32)


def test_a_lasting_effect_is_found_and_grows_with_its_size() -> None:
    scores = []
    for size in (0.08, 0.12, 0.2):
        one = judged(windows(p50=each(size, size, size), mean=each(size, size, size)))
        assert one.flags[0, SICK] and one.flags.sum() == 1
        scores.append(float(one.score[0, SICK]))
    assert scores == sorted(scores)


@pytest.mark.parametrize(
    ("p50", "mean", "why"),
    [
        (each(0, 0, 0), each(0, 0, 0), "healthy"),
        (each(0.4, 0, 0), each(0.4, 0, 0), "one window, and over"),
        (each(0.2, 0.2, 0), each(0.2, 0.2, 0), "no longer there"),
        (each(1.4, 0.02, 0.02), each(1.4, 0.02, 0.02), "gross, and over but for noise"),
        (each(0, 0, 0.4), each(0, 0, 0.4), "the last window alone"),
        (each(0, 0, 0), each(0.2, 0.2, 0.2), "spikes lengthen the mean only"),
        (each(0.2, 0.2, 0.2), each(0, 0, 0), "another mix moves the median only"),
        (each(-0.2, -0.2, -0.2), each(-0.2, -0.2, -0.2), "faster"),
    ],
)
def test_nothing_else_is(p50: Reals, mean: Reals, why: str) -> None:
    assert not judged(windows(p50=p50, mean=mean)).flags.any(), why


def test_what_all_kernels_of_a_rank_share_is_not_the_kernels() -> None:
    none, slow = each(0, 0, 0), each(0.1, 0.1, 0.1)
    assert not judged(windows(p50=none, mean=none, factor=0.3)).flags.any()
    one = judged(windows(p50=slow, mean=slow, factor=0.3))
    assert one.flags[0, SICK] and one.flags.sum() == 1
    assert one.beyond[0, SICK] == pytest.approx(0.1, abs=0.02)


def test_communication_and_missing_ranks_accuse_nobody() -> None:
    slow = each(0.1, 0.1, 0.1)
    assert not judged(windows(p50=slow, mean=slow), is_compute=False).flags.any()
    seen = windows(p50=slow, mean=slow)
    for window in seen[:1]:
        for part in (window.p50, window.mean, window.top):
            part[:, SICK] = np.nan
    assert not judged(seen).flags.any()
    for window in seen:
        for part in (window.p50, window.mean, window.top):
            part[:] = np.nan
    assert not judged(seen).flags.any()


@pytest.mark.parametrize(("stray", "is_told"), [(0.003, True), (0.15, False)])
def test_the_slower_half_is_told_unless_windows_stray_as_far(stray: float, is_told: bool) -> None:
    slow = np.where(np.arange(8) < 4, np.float32(0.1), np.float32(-0.1))
    aside = stray * np.where(np.arange(8) % 2, np.float32(1.0), np.float32(-1.0))
    seen = []
    for sign in (1.0, -1.0, 0.0):
        part = np.tile(slow + np.float32(sign) * aside, (KERNELS, 1)).astype(np.float16)
        seen.append(Parts(p50=part, mean=part, top=part, factor=np.zeros(8, np.float32)))
    mean = np.tile(slow, (KERNELS, 1))
    found = candidates(np.zeros_like(mean), factor=seen[-1].factor)
    told = averaged(seen, found, peers_of(8), noise=np.zeros_like(mean), mean=mean, settings=Settings())
    assert told.flags.tolist() == [[is_told and rank < 4 for rank in range(8)]] * KERNELS
