"""One kernel compared between ranks of the same role: how much slower each is, mode by mode.

Ranks of one role launch the same kernels in the same numbers, so modes are matched in order and by
cumulative count, never by the nearest p50: a slowdown by exactly the ratio of two modes would otherwise
look like another mix. Where a rank has a mode more or fewer than its peers, modes are merged until the
boundaries of both sides agree; counts and sums add up, so the merged means are exact. A shift must show in
the medians and in the means; what shows in the means alone is a tail. How large it is, medians, means and the
maximum say together, each with the weight that its own scatter among the peers leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.peers import Bools, Ints, Peers
from argus.analytics.kernels.table import Kernel
from argus.analytics.special import ndtri
from argus.collectors.records.kernel_blob import LOG_STEP

Reals = NDArray[np.float32]

BOUNDARY = 0.05
"""Boundaries of modes are the same if their cumulative shares differ by less; a valley moves a few samples."""

ALIKE, ALIKE_FLOOR = 0.3, 0.02
"""Modes moved by one factor if none strays from it by more than this part of it, or by two per cent."""

MAIN_SHARE = 0.9
"""A merged block's tail is read only if one of its clusters holds this part of the samples."""

QUANTUM = np.float32(LOG_STEP / np.sqrt(6.0))
"""Error of a difference of two quantised logarithms."""

MOST_BEYOND = 2.0
"""The estimate of a shift is believed up to twice what medians and means both show."""

WEIGHED = 512
"""Ranks whose scatter gives the weights: enough for a robust spread to a few per cent."""

ONE_LAUNCH = 0.5
"""Part of a slowdown that the longest launch may make of it. One launch is no shift, but where a mode is it alone, or
merged modes have no median, it looks like one: beyond this part the other launches say how slow the rank is."""

FEWEST = 16
"""With fewer samples a scatter is a guess, and medians and means weigh the same."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Logarithmic effects of one kernel against the peers' reference, all (rank,), NaN where absent.

    `shift`: the slowdown that medians and means agree on; `p50`: what the medians alone say; `tail`: what the means show beyond the medians;
    `top`: the maximum against the peers' median maximum; `peak`, `mean`: own maximum and mean in log ns;
    `total_ns`: time in the window; `noise`: sampling and quantisation error of `shift`.
    """

    shift: Reals
    p50: Reals
    tail: Reals
    top: Reals
    peak: Reals
    mean: Reals
    total_ns: Reals
    noise: Reals


@dataclass(frozen=True, kw_only=True)
class _Reference:
    """The peers' modes, (mode, class); `modes` (class,) says how many count, `noise` is (class,)."""

    modes: Ints
    p50: Reals
    mean: Reals
    share: Reals
    weight: Reals  # part of the kernel's time
    log_total: Reals  # (class,) log of the mean duration over all modes
    noise: Reals


@dataclass(frozen=True, kw_only=True)
class _Own:
    """The kernel as its ranks have it, (cluster, rank)."""

    share: Reals
    mean: Reals
    time: Reals  # share x mean duration
    clusters: Ints  # (rank,)
    present: Bools  # (rank,)


def compare(kernel: Kernel, peers: Peers) -> Comparison:
    """Every rank against the reference of its class."""
    total = kernel.count.sum(axis=0)
    own = _own(kernel, total)
    modes = _common(own.clusters, peers)
    agrees = own.present & (own.clusters == modes[peers.of])
    reference = _reference(kernel, peers, own=own, modes=modes, agrees=agrees)
    mass = own.time.sum(axis=0)
    log_mass = np.log(np.maximum(mass, np.float32(1e-30)))
    p50, mean, alike = _in_order(kernel, peers, own=own, reference=reference)
    moved = agrees & _moved(own.share, reference, peers=peers)
    clean = agrees & ~moved
    odd = np.flatnonzero(own.present & ~agrees)
    if len(odd):
        p50[odd], mean[odd], clean[odd] = _merged(kernel, odd, own=own, reference=reference, of=peers.of[odd])
    doubtful = moved & ~alike
    if doubtful.any():
        whole = log_mass - reference.log_total[peers.of]
        p50 = np.where(doubtful, _lesser(p50, whole), p50)
    against = _against_others(own.present, peers, compared=agrees)
    alone = _of_longest(kernel, peers, own=own, log_mass=log_mass)
    is_one = (p50 > 0) & (alone >= ONE_LAUNCH * p50)
    others = log_mass - reference.log_total[peers.of] - alone
    p50 = np.where(is_one, _lesser(p50, others), p50)
    whole_mean, mean = mean, np.where(is_one, others, mean)
    top, peak = _top(kernel, peers, present=own.present)
    shift, sharper = _weighed(
        np.stack([p50, mean, np.where(clean & ~is_one, top, np.nan)]), present=own.present
    )
    return Comparison(
        shift=shift * against,
        p50=p50 * against,
        tail=np.where(clean | is_one, whole_mean - p50, np.float32(0.0)) * against,
        top=top,
        peak=peak,
        mean=np.where(own.present, log_mass, np.nan),
        total_ns=np.where(own.present, mass * total, 0.0),
        noise=np.maximum(reference.noise[peers.of] * sharper * np.sqrt(np.fmax(against, 1.0)), QUANTUM),
    )


def _of_longest(kernel: Kernel, peers: Peers, *, own: _Own, log_mass: Reals) -> Reals:
    """What each rank's longest launch adds to the logarithm of its mean beyond what the peers' do, NaN if not known. (rank,)

    Of each rank against itself first: where half of the ranks are slow, two medians may lie in different halves.
    """
    total = kernel.count.sum(axis=0)
    longest = np.where(kernel.count > 0, kernel.log_max, -np.inf)
    at = longest.argmax(axis=0), np.arange(len(total))
    known = (total > 1) & np.isfinite(longest[at])
    time = own.time * total
    left = time[at] - np.exp(longest[at])
    # A launch beside which the others of its cluster are lost in the packing: their median stands for them.
    is_lost = left < 2.0 * LOG_STEP * time[at]
    time[at] = np.where(is_lost, (kernel.count[at] - 1.0) * np.exp(kernel.log_p50[at]), left)
    rest = np.log(np.maximum(time.sum(axis=0) / np.maximum(total - 1, 1.0), np.float32(1e-30)))
    adds = log_mass - rest
    beyond = adds - peers.medians(adds[None], valid=known)[0][peers.of]
    return np.asarray(np.where(known, beyond * _against_others(known, peers, compared=known), np.nan))


def _against_others(present: Bools, peers: Peers, *, compared: Bools) -> Reals:
    """What an effect against the whole class is to be multiplied by to be one against its others. (rank,)

    The median of two lies half way, if both are `compared`; who has no other cannot be compared (NaN), nor who has not
    the kernel.
    """
    num, both = (
        np.bincount(peers.of, weights=some, minlength=len(peers.rows))[peers.of]
        for some in (present, present & compared)
    )
    return np.where(present & (num > 1), np.where((num == 2) & (both == 2), 2.0, 1.0), np.nan).astype(
        np.float32
    )


def _top(kernel: Kernel, peers: Peers, *, present: Bools) -> tuple[Reals, Reals]:
    """The maximum of each rank against the median one of its class, 0 where unknown, and itself, else NaN. (rank,)"""
    top = np.where(kernel.count > 0, kernel.log_max, -np.inf).max(axis=0)
    known = present & np.isfinite(top)
    against = np.where(known, top - peers.medians(top[None], valid=known)[0][peers.of], 0.0)
    return np.asarray(against), np.where(known, top, np.nan)


def _weighed(parts: Reals, *, present: Bools) -> tuple[Reals, np.float32]:
    """Shift from its estimates by median, mean and maximum (part, rank), NaN where one does not apply.

    Also how much less it scatters than the median.
    """
    some = np.flatnonzero(present)
    weight, scatter = weights(parts[:, some[:: max(1, len(some) // WEIGHED)]])
    sharper = np.float32(min(1.0, float(weight.sum()) ** -0.5 / float(scatter[0])))
    return combined(parts, weight), sharper


def weights(samples: Reals) -> tuple[Reals, Reals]:
    """Weight and scatter of each estimate from samples (part, sample) of mostly healthy ranks. (part,)

    Each counts by the inverse square of its scatter: the mean is best for a narrow kernel, the maximum for one
    whose durations end sharply.
    """
    if samples.shape[1] < FEWEST:
        return np.array([1.0, 1.0, 0.0], np.float32), np.ones(3, np.float32)
    scatter = _scatter(samples)
    return scatter**-2, scatter


def combined(parts: Reals, weight: Reals) -> Reals:
    """Weighted mean of the estimates of each rank, (part, rank) to (rank,).

    Whatever they say, no more than `MOST_BEYOND` times what median and mean both show, so neither a spike nor
    another mix becomes a shift.
    """
    lesser = _lesser(parts[0], parts[1])
    known = np.isfinite(parts)
    share = weight[:, None] * known
    total = np.maximum(share.sum(axis=0), np.float32(1e-30))
    estimate = (share * np.where(known, parts, np.float32(0.0))).sum(axis=0) / total
    size = np.clip(estimate * np.sign(lesser), 0.0, MOST_BEYOND * np.abs(lesser))
    return np.asarray(np.copysign(size, lesser), np.float32)


def _scatter(parts: Reals) -> Reals:
    """Median size of each estimate, which is centred by construction, never below a quantum. (part,)"""
    size = np.sort(np.abs(parts), axis=1)  # NaN last
    count = np.isfinite(size).sum(axis=1)
    middle = size[np.arange(len(size)), np.maximum(count - 1, 0) // 2]
    return np.asarray(np.where(count > 0, np.maximum(middle, QUANTUM), np.inf), np.float32)


def _own(kernel: Kernel, total: Reals) -> _Own:
    has = kernel.count > 0
    share = np.asarray(kernel.count / np.maximum(total, 1.0), np.float32)
    # Without sums (paper mode) the median stands in for the mean.
    mean = np.where(np.isnan(kernel.log_mean), kernel.log_p50, kernel.log_mean)
    return _Own(
        share=share,
        mean=mean,
        time=np.asarray(share * np.exp(mean), np.float32),
        clusters=has.sum(axis=0),
        present=total > 0,
    )


def _lesser(one: Reals, other: Reals) -> Reals:
    """The smaller of two effects where they have the same sign, else none: both must show it."""
    least = np.minimum(np.abs(one), np.abs(other))
    return np.asarray(np.where(one * other > 0, np.copysign(least, one), np.float32(0.0)))


def _common(clusters: Ints, peers: Peers) -> Ints:
    """The number of modes most ranks of each class have; the fewer of two equally common."""
    most = int(clusters.max(initial=0)) + 1
    table = np.bincount(peers.of * most + clusters, minlength=len(peers.rows) * most).reshape(-1, most)
    table[:, 0] = 0
    return np.asarray(table.argmax(axis=1))


def _reference(kernel: Kernel, peers: Peers, *, own: _Own, modes: Ints, agrees: Bools) -> _Reference:
    wide = int(modes.max(initial=0))
    # Where p99 of n samples lies, as in `mixture.fit`; ranks of one role launch alike. Of one sample it tells nothing.
    num = kernel.count[:wide].sum(axis=1) / np.maximum((kernel.count[:wide] > 0).sum(axis=1), 1)
    z99 = ndtri(((np.maximum(num, 1.0) - 1.0) * 0.99 + 0.5) / np.maximum(num, 1.0))
    to_error = np.where(z99 > 0, 1.25 / np.maximum(z99, 1e-9), 0.0).astype(np.float32)[:, None]
    sigma = (kernel.log_p99 - kernel.log_p50)[:wide] * to_error
    error = own.share[:wide] * sigma / np.sqrt(np.maximum(kernel.count[:wide], np.float32(1.0)))
    # The median rank's error: a spike makes one rank's p99 huge and says nothing of the others.
    error = np.sqrt((error * error).sum(axis=0, keepdims=True))
    columns = np.concatenate([kernel.log_p50[:wide], own.mean[:wide], own.share[:wide], error])
    medians = peers.medians(columns, valid=agrees)
    counts = np.arange(wide)[:, None] < modes
    p50, mean, share = (np.where(counts, part, np.float32(0.0)) for part in np.split(medians[:-1], 3))
    share = share / np.maximum(share.sum(axis=0), np.float32(1e-30))
    weight = share * np.exp(mean) * counts
    total = np.maximum(weight.sum(axis=0), np.float32(1e-30))
    noise = np.nan_to_num(medians[-1]) + QUANTUM
    return _Reference(
        modes=modes,
        p50=p50,
        mean=mean,
        share=share,
        weight=weight / total,
        log_total=np.log(total),
        noise=noise.astype(np.float32),
    )


def _in_order(
    kernel: Kernel, peers: Peers, *, own: _Own, reference: _Reference
) -> tuple[Reals, Reals, Bools]:
    """Effects (rank,) of modes paired by their order, weighted by time: in medians and in means.

    And whether the modes' medians moved by one factor: then other counts are another mix, not other modes.
    """
    wide = len(reference.p50)
    if len(reference.modes) == 1:
        weight, p50, mean = reference.weight, reference.p50, reference.mean
    else:
        weight, p50, mean = (part[:, peers.of] for part in (reference.weight, reference.p50, reference.mean))
    moved = kernel.log_p50[:wide] - p50
    by_p50 = (weight * moved).sum(axis=0)
    by_mean = (weight * (own.mean[:wide] - mean)).sum(axis=0)
    apart = np.where(weight > 0, np.abs(moved - by_p50), 0.0).max(axis=0, initial=0.0)
    return by_p50, by_mean, apart <= np.maximum(ALIKE * np.abs(by_p50), ALIKE_FLOOR)


def _moved(share: Reals, reference: _Reference, *, peers: Peers) -> Bools:
    """Ranks whose boundaries lie elsewhere than their peers'."""
    wide = len(reference.share)
    theirs = np.cumsum(reference.share, axis=0)
    away = np.cumsum(share[:wide], axis=0) - (theirs if theirs.shape[1] == 1 else theirs[:, peers.of])
    return np.asarray((np.abs(away) > BOUNDARY).any(axis=0))


def _merged(
    kernel: Kernel, odd: Ints, *, own: _Own, reference: _Reference, of: Ints
) -> tuple[Reals, Reals, Bools]:
    """Effects of the ranks `odd` over blocks of modes between the boundaries both sides have.

    In medians, in means, and whether each block has one main cluster on both sides.
    """
    mine, theirs = own.share[:, odd], reference.share[:, of]
    left, right = _blocks(mine, theirs)
    p50, means = np.zeros(len(odd), np.float32), np.zeros(len(odd), np.float32)
    clean = np.ones(len(odd), np.bool_)
    for block in range(int(right.max(initial=0)) + 1):
        a, b = (left == block) & (mine > 0), (right == block) & (theirs > 0)
        here = a.any(axis=0) & b.any(axis=0)
        ours = _block(np.where(a, mine, 0.0), own.mean[:, odd], kernel.log_p50[:, odd])
        peer = _block(np.where(b, theirs, 0.0), reference.mean[:, of], reference.p50[:, of])
        part = np.where(here, (reference.weight[:, of] * b).sum(axis=0), 0.0)
        p50 += part * np.where(here, ours.p50 - peer.p50, 0.0)
        means += part * np.where(here, ours.mean - peer.mean, 0.0)
        clean &= ~here | ((ours.main >= MAIN_SHARE) & (peer.main >= MAIN_SHARE))
    return np.where(clean, p50, means), means, clean


@dataclass(frozen=True, kw_only=True)
class _Block:
    mean: Reals
    p50: Reals
    main: Reals


def _block(share: Reals, mean: Reals, p50: Reals) -> _Block:
    """Mean of the clusters with a share, the median of the largest of them and that one's part."""
    total = np.maximum(share.sum(axis=0), 1e-30)
    main = share.argmax(axis=0)
    at = np.arange(share.shape[1])
    return _Block(
        mean=np.log(np.maximum((share * np.exp(mean)).sum(axis=0) / total, 1e-30)),
        p50=p50[main, at],
        main=share[main, at] / total,
    )


def _blocks(mine: Reals, theirs: Reals) -> tuple[Ints, Ints]:
    """Block number of each cluster on both sides: one more after every boundary that both have."""
    a, b = np.cumsum(mine, axis=0)[:-1], np.cumsum(theirs, axis=0)[:-1]
    inner = (a < 1.0 - 1e-5)[:, None, :] & (b < 1.0 - 1e-5)[None, :, :]
    away = np.where(inner, np.abs(a[:, None, :] - b[None, :, :]), np.inf)
    nearest_a = away == away.min(axis=1, keepdims=True, initial=np.inf)
    nearest_b = away == away.min(axis=0, keepdims=True, initial=np.inf)
    match = nearest_a & nearest_b & (away <= BOUNDARY)
    return _numbered(match.any(axis=1)), _numbered(match.any(axis=0))


def _numbered(is_boundary: Bools) -> Ints:
    """Block of each cluster from which inner boundaries count. (cluster, rank)"""
    first = np.zeros((1, is_boundary.shape[1]), np.int64)
    return np.concatenate([first, np.cumsum(is_boundary, axis=0)])
