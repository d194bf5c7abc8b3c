"""From effects to suspects: which (kernel, rank) are slow, decided for all kernels of a window at once.

A rank's effects are split into what all its kernels share (its clock, its chip) and what one kernel has beyond
that; each part is scored against the ranks' own spread, and the threshold comes from a false-alarm budget over
all of them. Half of the peers slow leaves no odd one out: a two-population test and each device's own history
see that. Nothing is reported before it was seen in two of three windows, unless it is gross.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.effects import Effects
from argus.analytics.kernels.halves import slower_half, two_populations
from argus.analytics.kernels.peers import Bools, Ints, Peers
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import LEAST, Reals, Tail, healthy_tail
from argus.analytics.special import stdtrit

MAD_TO_SIGMA = 1.4826
BEST_AT, BEST_TO_SIGMA, BEST_EFFICIENCY = 0.86, 1 / 1.4758, 0.65
"""The quantile of absolute deviations that tells a normal's spread best: as well as the standard deviation of 0.65 of
the sample, where their median does as that of 0.37. One rank in seven may be sick."""


BY_CHANCE, FEWEST_FREE = 1e-4, 4.0
"""Of log-normal launches on two to seven ranks, scattered by 0.3, one effect in ten thousand exceeds six errors of ten
launches or more, and ten errors of five; of fewer the error says too little to wait for more of them."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median in those of a mean of normal values."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What one window shows, before persistence. Matrices are (kernel, rank), vectors (rank,).

    `shift`: slow beyond the rank's own factor, or as one of two populations; `tail`: only
    the means are slow; `device`: all kernels slow by one factor. `score` and `device_score` are in healthy
    spreads.
    """

    shift: Bools
    tail: Bools
    device: Bools
    gross: Bools
    score: Reals
    tail_score: Reals
    device_score: Reals
    factor: Reals
    beyond: Reals = field(repr=False)
    share: Reals  # (kernel,)
    is_compute: Bools  # (kernel,)
    spread_tail: Tail = field(repr=False)
    device_tail: Tail = field(repr=False)
    probability: float


def scan(
    effects: Effects, peers: Peers, *, is_compute: Bools, window_s: float, settings: Settings
) -> Candidates:
    """Candidates of one window."""
    shift, share = effects.shift, _share(effects, window_s=window_s)
    heavy = (share >= settings.share)[:, None]
    factor, error = _factor(effects, peers, is_compute=is_compute, settings=settings)
    shared = np.where(is_compute[:, None], factor, np.float32(0.0))
    beyond = shift - shared
    spread = peer_spread(beyond)
    score = beyond / floored(spread.robust, effects.noise, settings=settings)
    probability = per_test(beyond.size, window_s=window_s, settings=settings)
    limit, spread_tail = _limits(score, is_compute, probability)
    few = np.broadcast_to(peers.num_peers(np.arange(len(shift))) < settings.small_group, shift.shape)
    gate = least_effect(share, spread, is_compute=is_compute, probability=probability, settings=settings)
    least = np.array(np.broadcast_to(gate, shift.shape))
    least[few] = np.maximum(math.log(settings.small_ratio), _sure(effects, few))
    total = (np.minimum(beyond, shift) >= least) & (score >= np.where(few, limit / 2, limit))
    total |= _halves(effects, shared, peers, settings=settings)
    device, own, of_devices = _devices(factor, peers, error=error, window_s=window_s, settings=settings)
    tail, tail_score = _tails(effects, peers, heavy=heavy, probability=probability, settings=settings)
    return Candidates(
        shift=total & heavy,
        tail=tail & ~total & ~device[None, :],
        device=device,
        # Where modes were not told apart another mix of them looks as gross, which no rank has for long.
        gross=(shift >= math.log(settings.gross)) & (score >= 2.0 * limit) & (effects.tail != 0.0),
        score=score,
        tail_score=tail_score,
        device_score=own,
        factor=factor,
        share=share,
        is_compute=is_compute,
        spread_tail=spread_tail,
        beyond=beyond,
        device_tail=of_devices,
        probability=probability,
    )


def _halves(effects: Effects, shared: Reals, peers: Peers, *, settings: Settings) -> Bools:
    """Ranks of the slower of two populations in a kernel, without what their kernels have shared. (kernel, rank)"""
    return slower_half(
        effects.p50 - shared,
        peers,
        kernels=np.arange(len(shared)),
        mean=effects.mean,
        noise=effects.noise,
        settings=settings,
    )


def _sure(effects: Effects, few: Bools) -> Reals:
    """Log effect that sampling alone does not make, where too `few` peers show how far it goes. (place of `few`,)

    The error of few launches is a guess itself, hence Student's t.
    """
    launches = effects.total_ns[few] / np.exp(effects.mean[few])
    freedom = np.maximum(np.nan_to_num(launches) - 1.0, FEWEST_FREE)
    return np.asarray(np.maximum(LEAST, -stdtrit(freedom, BY_CHANCE)) * effects.noise[few], np.float32)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far each kernel's ranks lie apart, `num` of them. (kernel, 1)

    `robust` holds while less than half are sick, `sharp` is known better, where few are.
    """

    robust: Reals
    sharp: Reals
    num: Ints


def least_effect(
    share: Reals, spread: Spread, *, is_compute: Bools, probability: float, settings: Settings
) -> Reals:
    """Log effect from which a rank is told whose score stands out of its peers', `effect` at most. (kernel, 1)

    As much lost time as `effect` of the smallest kernel, but no less than `clear`; and beyond what the peers' spread
    may truly be: of few it is known badly, hence Student's t at the same `probability`. Communication waits for
    others, of it less than `effect` says nothing.

    >>> peers = np.random.default_rng(0).normal(0.0, 0.001, (4, 1000))
    >>> peers[2, 8:] = np.nan
    >>> known, share = peer_spread(peers), np.array([0.0075, 0.5, 0.5, 0.5])
    >>> compute = np.array([True, True, True, False])
    >>> gate = least_effect(share, known, is_compute=compute, probability=3e-11, settings=Settings())
    >>> [f"{effect:.1%}" for effect in np.expm1(gate[:, 0])]
    ['2.0%', '1.0%', '3.0%', '3.0%']
    """
    worth = settings.effect * settings.share / np.maximum(share, np.float32(1e-9))
    unknown = -stdtrit(BEST_EFFICIENCY * np.maximum(spread.num, 1), probability) * spread.sharp
    least = np.where(is_compute, np.log1p(np.maximum(worth, settings.clear)), np.inf)[:, None]
    return np.asarray(np.minimum(np.maximum(least, unknown), math.log1p(settings.effect)), np.float32)


def _limits(score: Reals, is_compute: Bools, probability: float) -> tuple[Reals, Tail]:
    """Threshold of each kernel, with the tail of the compute kernels. (kernel, 1)

    Communication waits for others and strays much further; the two do not share a tail.
    """
    compute, other = healthy_tail(score[is_compute]), healthy_tail(score[~is_compute])
    limit = np.where(is_compute, compute.threshold(probability), other.threshold(probability))
    return np.asarray(limit[:, None], np.float32), compute


def _devices(
    factor: Reals, peers: Peers, *, error: Reals, window_s: float, settings: Settings
) -> tuple[Bools, Reals, Tail]:
    """Ranks all of whose kernels are slow by one factor, with scores and their healthy tail. (rank,)"""
    few = (peers.sizes < settings.small_group)[peers.of]
    scale = spread_of(factor[None, :], error[None, :], settings=settings)[0]
    score = factor / scale
    tail = healthy_tail(score[None, :])
    limit = tail.threshold(per_test(len(factor), window_s=window_s, settings=settings))
    gate = math.log1p(settings.effect)
    device = (factor >= gate) & (score >= limit) & ~few
    device |= few & (factor >= np.maximum(math.log(settings.small_ratio), LEAST * error))
    # One that stands far out would be all of the slower population, whoever else is in it.
    others = np.where(device, np.nan, factor)
    for some in (factor, others) if device.any() else (factor,):
        device |= two_populations(some[None, :], peers.by_class(), gate=gate, settings=settings)[0]
    return device, score, tail


def per_test(num_tests: int, *, window_s: float, settings: Settings) -> float:
    """Probability one test may fire on healthy data: the day's budget over the day's tests, or the floor."""
    windows = 86_400.0 / max(window_s, 1.0)
    return min(settings.false_per_day / max(num_tests * windows, 1.0), settings.floor)


def _share(effects: Effects, *, window_s: float) -> Reals:
    """Part of the window each kernel takes on the ranks that have it. (kernel,)"""
    has = effects.total_ns > 0
    total = effects.total_ns.sum(axis=1) / np.maximum(has.sum(axis=1), 1)
    return np.asarray(total / max(window_s * 1e9, 1.0), np.float32)


def _factor(
    effects: Effects, peers: Peers, *, is_compute: Bools, settings: Settings, most: int = 64
) -> tuple[Reals, Reals]:
    """What the compute kernels of a rank share: the median of their medians' effects, over the largest. (rank,)

    And its sampling error: a few ranks may by chance lie closer together than that.
    With fewer than five kernels nothing can be told apart and the factor is 0. Kernels of experts that few hold
    are left out: where one of two is slow nobody can say which.
    """
    p50 = effects.p50
    if peers.experts is not None:
        few = peers.num_peers(np.arange(len(p50))) < settings.small_group
        p50 = np.where(peers.of_experts[:, None] & few, np.nan, p50)
        is_compute = is_compute & np.isfinite(p50).any(axis=1)
    total = np.where(is_compute, effects.total_ns.sum(axis=1), 0.0)
    largest = np.argsort(-total, kind="stable")[:most]
    largest = largest[total[largest] > 0]
    if len(largest) < 5:
        return np.zeros(p50.shape[1], np.float32), np.zeros(p50.shape[1], np.float32)
    ordered = np.sort(p50[largest], axis=0)  # NaN last
    count = np.isfinite(ordered).sum(axis=0)
    at = np.arange(ordered.shape[1])
    low, high = (
        ordered[np.maximum(count - 1, 0) // 2, at],
        ordered[np.minimum(count // 2, len(largest) - 1), at],
    )
    error = MEDIAN_ERROR * np.median(effects.noise[largest], axis=0) / np.sqrt(np.maximum(count, 1))
    return np.asarray(np.nan_to_num((low + high) / 2.0), np.float32), np.asarray(error, np.float32)


def spread_of(beyond: Reals, noise: NDArray[np.floating], *, settings: Settings) -> Reals:
    """Healthy spread of each kernel over its ranks, never below noise and floor. (kernel, 1) or (kernel, rank)"""
    return floored(peer_spread(beyond).robust, noise, settings=settings)


def peer_spread(beyond: Reals) -> Spread:
    """Robust spread of effects (kernel, rank), which are centred by construction."""
    size = np.sort(np.abs(beyond), axis=1)  # NaN last
    num = np.isfinite(size).sum(axis=1)
    last = np.maximum(num - 1, 0)
    at = np.stack([last // 2, np.rint(BEST_AT * last).astype(np.int64)], axis=1)
    to_sigma = np.array([MAD_TO_SIGMA, BEST_TO_SIGMA], np.float32)
    robust, sharp = np.nan_to_num(np.take_along_axis(size, at, axis=1) * to_sigma).T
    return Spread(robust=robust[:, None], sharp=sharp[:, None], num=num[:, None])


def floored(spread: Reals, noise: NDArray[np.floating], *, settings: Settings) -> Reals:
    """A spread (kernel, 1) never below noise and floor. (kernel, 1) or (kernel, rank)"""
    return np.asarray(np.maximum(np.maximum(spread, noise), settings.scale_floor), np.float32)


def _tails(
    effects: Effects, peers: Peers, *, heavy: Bools, probability: float, settings: Settings
) -> tuple[Bools, Reals]:
    """Kernels whose mean and maximum rise while their median does not.

    Many long launches show in the mean; a single one may drown in it, but not in the maxima of the peers. Where
    half of the peers have them, the maxima fall into two populations.
    """
    score = effects.tail / spread_of(effects.tail, effects.noise, settings=settings)
    spike = effects.top / spread_of(effects.top, np.zeros_like(effects.noise), settings=settings)
    least = math.log(settings.tail_top)
    stands_out = score >= healthy_tail(score).threshold(probability)
    stands_out |= spike >= healthy_tail(spike).threshold(probability)
    flagged = stands_out & (effects.top >= least) & (effects.tail >= math.log1p(settings.tail_effect))
    flagged |= two_populations(
        effects.top,
        peers.by_class(np.arange(len(score))),
        gate=least,
        settings=settings,
        mean=effects.tail,
        mean_gate=settings.tail_effect,
    )
    return flagged & heavy, np.maximum(score, spike)
