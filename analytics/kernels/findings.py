"""Kernel candidates that lasted, as findings: which kernel, how much, how broad, how sure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.kernels.digest import KernelDigest, expected_per_day
from argus.analytics.kernels.distance import barycentre, quantile_profile, to_peers
from argus.analytics.kernels.error import standard_error
from argus.analytics.kernels.kinds import ALL, breadth, kind_of, short_name
from argus.analytics.kernels.mixture import fit
from argus.analytics.kernels.peers import Ints
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import Kernel, dense
from argus.analytics.kernels.tail import Reals
from argus.analytics.kernels.votes import Votes
from argus.analytics.view import View
from argus.topology.layout import Topology

MAX_W1_KERNELS = 8
"""Kernels of a window whose Wasserstein distances are computed, those with the costliest suspects."""

W1_PEERS = 256
"""Peers that stand for all of them in a barycentre: their median is good to a few per cent of their spread."""

MANY = 0.05
"""Accused part of a class from which the median of all its ranks is no longer that of the healthy ones."""

APART = 1.5
"""Devices of one cause are slow by factors without a gap: no log factor is so many times the next smaller one."""

WHOLE_GROUP = 0.75
"""A group is named when this part of it is suspected, and nobody outside."""


def findings_of(view: View, now: KernelDigest, votes: Votes, *, settings: Settings) -> Iterator[Finding]:
    """Shifts and tails of single kernels with all the ranks that show them, then whole devices.

    However many ranks there are, they are two a kernel at most, and of devices a few.
    """
    now = _against_healthy(_over_windows(now, votes), votes)
    assert now.effects is not None and now.found is not None
    lost = _lost_s(view, now)
    cost = np.where(votes.shift | votes.tail, np.nan_to_num(lost), 0.0).sum(axis=1)
    for place, kernel in enumerate(np.argsort(-cost, kind="stable")):
        k = int(kernel)
        for flags, kind in ((votes.shift[k], "kernel_shift"), (votes.tail[k], "kernel_tail")):
            flagged = np.flatnonzero(flags & ~votes.device)
            if len(flagged):
                worst = int(flagged[np.argmax(lost[k, flagged])])
                w1 = _w1(now, k, rank=worst) if place < MAX_W1_KERNELS else None
                yield _kernel_finding(
                    view, now, votes, kernel=k, ranks=flagged, worst=worst, kind=kind, lost=lost[k], w1=w1
                )
    for ranks in _alike(np.flatnonzero(votes.device), now.found.factor):
        yield _device_finding(view, now, ranks=ranks, lost=lost)


def _over_windows(now: KernelDigest, votes: Votes) -> KernelDigest:
    """Effect and score of the windows together where these show more: one window alone may hardly show it."""
    assert now.effects is not None and now.found is not None
    if votes.together is None:
        return now
    one = votes.together
    more = one.flags & (one.score > now.found.score)
    shift = np.where(more, one.beyond + now.found.factor, now.effects.shift)
    return replace(
        now,
        effects=replace(now.effects, shift=shift),
        found=replace(now.found, score=np.where(more, one.score, now.found.score)),
    )


def _against_healthy(now: KernelDigest, votes: Votes) -> KernelDigest:
    """Effects against the peers that are not accused: where half are slow, the median lies between the halves."""
    assert now.effects is not None and now.found is not None
    accused = votes.shift | votes.tail | votes.device
    shift, tail, factor = now.effects.shift.copy(), now.effects.tail.copy(), now.found.factor[None].copy()
    everything = np.arange(len(shift))
    for places, members in now.peers.by_class(everything):
        some = everything[places]
        for k in some[accused[np.ix_(some, members)].mean(axis=1) >= MANY]:
            _centre((shift[k], tail[k]), members, healthy=members[~accused[k, members]])
    for _, members in now.peers.by_class():
        if votes.device[members].mean() >= MANY:
            _centre((factor[0],), members, healthy=members[~votes.device[members]])
    return replace(
        now,
        effects=replace(now.effects, shift=shift, tail=tail),
        found=replace(now.found, factor=factor[0]),
    )


def _centre(effects: Sequence[Reals], members: Ints, *, healthy: Ints) -> None:
    """Subtract the median of the healthy from all members, in place."""
    for one in effects:
        if np.isfinite(one[healthy]).any():
            one[members] -= np.nanmedian(one[healthy])


def _lost_s(view: View, now: KernelDigest) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Seconds a step each kernel costs each rank more than its peers. (kernel, rank)

    Where there are none to compare a kernel with, what the rank's kernels share stands for it.
    """
    assert view.window is not None and now.effects is not None and now.found is not None
    effect = now.effects.shift + now.effects.tail
    is_unknown = np.isnan(effect) & now.found.is_compute[:, None] & (now.effects.total_ns > 0)
    effect = np.where(is_unknown, now.found.factor, effect)
    return np.asarray(
        now.effects.total_ns * (1.0 - np.exp(-effect)) * 1e-9 / view.window.num_steps, np.float32
    )


def _kernel_finding(
    view: View,
    now: KernelDigest,
    votes: Votes,
    *,
    kernel: int,
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]],
    worst: int,
    kind: str,
    lost: np.ndarray[tuple[int], np.dtype[np.float32]],
    w1: tuple[float, float] | None,
) -> Finding:
    assert now.effects is not None and now.found is not None
    effects, found = now.effects, now.found
    is_tail = kind == "kernel_tail"
    score = float((found.tail_score if is_tail else found.score)[kernel, worst])
    log10 = found.spread_tail.log10_probability(score)
    role = "culprit" if found.is_compute[kernel] else "victim"
    return replace(
        _about(view, now, ranks, kernel=kernel, kind=kind, role=role),
        ratio=math.exp(float((effects.tail if is_tail else effects.shift)[kernel, worst])),
        effect_s_per_step=float(lost[worst]),
        share_of_step=float(found.share[kernel]),
        significance=expected_per_day(log10, num_tests=effects.shift.size, window_s=_window_s(view)),
        evidence=tuple(_evidence(now, votes, kernel=kernel, rank=worst, score=score, w1=w1)),
    )


def _about(view: View, now: KernelDigest, ranks: Ints, *, kernel: int, kind: str, role: str) -> Finding:
    """A finding of the window about these ranks (indices) and a kernel, without its numbers."""
    assert view.window is not None and now.table is not None
    window = view.window
    members = tuple(sorted(int(rank) for rank in now.ranks[ranks]))
    group = _group_of(view.topology, members)
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=window.index,
        level="L3",
        detector="l3_kernel",
        kind=kind,
        role=role,
        ranks=members,
        nodes=(*(f"rank:{rank}" for rank in members), *((f"group:{group}",) if group else ())),
        group=group,
        kernel=short_name(now.table.text(now.keys[kernel][0])),
        start_step=window.first_step,
        end_step=window.first_step + window.num_steps - 1,
    )


def _evidence(
    now: KernelDigest,
    votes: Votes,
    *,
    kernel: int,
    rank: int,
    score: float,
    w1: tuple[float, float] | None,
) -> Iterator[Evidence]:
    """The numbers behind one kernel on its worst rank."""
    assert now.table is not None and now.effects is not None and now.found is not None
    effects = now.effects
    yield Evidence(name="score", value=score, note="healthy spreads from the peers")
    yield Evidence(name="breadth", value=1.0, note=_breadth_of_found(now, votes, kernel=kernel, rank=rank))
    accused = votes.shift[kernel] | votes.tail[kernel] | votes.device
    error = standard_error(effects, now.peers, kernel=kernel, rank=rank, accused=accused)
    bound = math.expm1(3.0 * error)
    yield Evidence(name="error_bound_ratio", value=bound, note="three standard errors of the comparison")
    mean_us = math.exp(float(effects.mean[kernel, rank])) * 1e-3
    yield Evidence(name="mean_us", value=mean_us, unit="us", note=now.table.text(now.keys[kernel][1]))
    yield Evidence(
        name="device_factor",
        value=math.exp(float(now.found.factor[rank])),
        note=now.table.text(now.keys[kernel][1]),
    )
    yield Evidence(name="max_ratio", value=math.exp(float(effects.top[kernel, rank])))
    if w1 is not None:
        yield Evidence(name="w1_to_peers_us", value=w1[0] * 1e-3, unit="us", baseline=w1[1] * 1e-3)
    if votes.own is not None and np.isfinite(votes.own[kernel, rank]):
        yield Evidence(name="own_past_ratio", value=math.exp(float(votes.own[kernel, rank])))


def _alike(ranks: Ints, factor: Reals) -> list[Ints]:
    """Slow devices parted where their factors have a gap; so many ranks there may be, the sets are few.

    >>> [one.tolist() for one in _alike(np.arange(4), np.array([0.2, 0.05, 0.06, 0.22], np.float32))]
    [[1, 2], [0, 3]]
    """
    order = ranks[np.argsort(factor[ranks], kind="stable")]
    size = np.maximum(factor[order], 1e-3)
    cuts = 1 + np.flatnonzero(size[1:] > APART * size[:-1])
    return [np.sort(one) for one in np.split(order, cuts) if len(one)]


def _device_finding(
    view: View, now: KernelDigest, *, ranks: Ints, lost: np.ndarray[tuple[int, int], np.dtype[np.float32]]
) -> Finding:
    """All kernels of some ranks by one factor: their clock, their power, their chips. The slowest speaks for them."""
    assert now.effects is not None and now.found is not None
    found = now.found
    worst = int(ranks[np.argmax(found.factor[ranks])])
    largest = int(np.where(found.is_compute, now.effects.total_ns[:, worst], 0.0).argmax())
    score = float(found.device_score[worst])
    log10 = found.device_tail.log10_probability(score)
    return replace(
        _about(view, now, ranks, kernel=largest, kind="kernel_shift", role="culprit"),
        ratio=math.exp(float(found.factor[worst])),
        effect_s_per_step=float(np.nansum(np.where(found.is_compute, lost[:, worst], 0.0))),
        share_of_step=float(found.share[found.is_compute].sum()),
        significance=expected_per_day(log10, num_tests=len(now.ranks), window_s=_window_s(view)),
        evidence=tuple(_device_evidence(now, rank=worst, score=score, role=now.keys[largest][1])),
    )


def _device_evidence(now: KernelDigest, *, rank: int, score: float, role: int) -> Iterator[Evidence]:
    assert now.table is not None and now.effects is not None and now.found is not None
    yield Evidence(name="score", value=score, note="healthy spreads of the ranks' common factor")
    breadth_of = _breadth(now, rank) or ALL
    yield Evidence(name="breadth", value=float(now.found.is_compute.sum()), note=breadth_of)
    factor = math.exp(float(now.found.factor[rank]))
    yield Evidence(name="device_factor", value=factor, note=now.table.text(role))
    bound = math.expm1(3.0 * float(np.median(now.effects.noise[:, rank])))
    yield Evidence(name="error_bound_ratio", value=bound)


def _breadth(now: KernelDigest, rank: int) -> str:
    """What is slow on a rank all of whose kernels are."""
    assert now.effects is not None
    return breadth(_kinds(now), now.effects.shift[:, rank], weight=now.effects.total_ns[:, rank])


def _breadth_of_found(now: KernelDigest, votes: Votes, *, kernel: int, rank: int) -> str:
    """What the kernels found on a rank have in common, compute apart from communication: that waits for others."""
    assert now.effects is not None and now.found is not None
    tail = votes.tail[:, rank]
    found = (votes.shift[:, rank] | tail) & (now.found.is_compute == now.found.is_compute[kernel])
    effect = np.where(tail, now.effects.tail[:, rank], now.effects.shift[:, rank])
    # What is slower than its own past alone may be no slower than its peers.
    effect = np.where(found, np.fmax(effect, now.effects.noise[:, rank]), effect)
    return breadth(_kinds(now), effect, weight=now.effects.total_ns[:, rank], found=found)


def _kinds(now: KernelDigest) -> list[str]:
    assert now.table is not None
    return [kind_of(now.table.text(name), now.table.text(role)) for name, role in now.keys]


def _w1(now: KernelDigest, kernel: int, *, rank: int) -> tuple[float, float] | None:
    """W₁ of a rank to the barycentre of its class, in ns, and the median one of the peers; an even sample of them."""
    assert now.table is not None
    one: Kernel = dense(now.table, kernel, last=kernel + 1)[0]
    same = now.peers.of_kernel(kernel)
    members = same.rows[same.of[rank]]
    peers = members[(members >= 0) & (members != rank)]
    peers = peers[one.count[:, peers].sum(axis=0) > 0]
    if not len(peers) or not one.count[:, rank].sum() > 0:
        return None
    chosen = np.append(peers[:: max(1, len(peers) // W1_PEERS)], rank)
    shape = fit(
        one.count[:, chosen].T.astype(np.int64),
        one.log_p50[:, chosen].T.astype(np.float64),
        log_p99=one.log_p99[:, chosen].T.astype(np.float64),
        log_max=one.log_max[:, chosen].T.astype(np.float64),
        log_mean=one.log_mean[:, chosen].T.astype(np.float64),
    )
    profile = quantile_profile(shape, strata=64)
    is_peer = np.arange(len(chosen)) < len(chosen) - 1
    distance = to_peers(profile, barycentre(profile, ranks=is_peer))
    return float(distance[-1]), float(np.median(distance[:-1]))


def _group_of(topology: Topology, ranks: Sequence[int]) -> str | None:
    """The smallest group that holds all of `ranks` and consists mostly of them; None for a single rank."""
    if len(ranks) < 2:
        return None
    suspects = set(ranks)
    holders = [
        group
        for group in topology.groups
        if suspects <= set(group.ranks) and len(suspects) >= WHOLE_GROUP * len(group.ranks)
    ]
    return min(holders, key=lambda group: (len(group.ranks), group.id)).id if holders else None


def _window_s(view: View) -> float:
    assert view.window is not None
    seen = view.window.step_s[np.isfinite(view.window.step_s)]
    return float(np.median(seen)) * view.window.num_steps if len(seen) else 1.0
