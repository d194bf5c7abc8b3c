"""Which of a window's kernel candidates lasted: persistence over windows, and the device's own past."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.average import Average, averaged
from argus.analytics.kernels.digest import KernelDigest, Pair, aligned, parts_for
from argus.analytics.kernels.luck import lasting, rate_of_others
from argus.analytics.kernels.peers import Bools, Ints
from argus.analytics.kernels.running import over_all
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals

Pairs = frozenset[Pair]
"""(kernel, rank) candidates of one window."""


@dataclass(frozen=True, kw_only=True)
class Votes:
    """What may become findings: (kernel, rank) and (rank,) flags, `own` the change against the past or None.

    `together` is what the last windows, or all so far, say as one, None while they are too few.
    """

    shift: Bools
    tail: Bools
    device: Bools
    own: Reals | None
    together: Average | None


def vote(now: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings) -> Votes:
    """Candidates seen in enough of the last windows, this one included; gross ones at once."""
    assert now.found is not None and now.effects is not None
    found = now.found
    before = list(past[-(settings.of - 1) :])
    # A mode of its own in one window and a tail in the next is one and the same trouble.
    seen = [one.shift | one.tail for one in before]
    shift = _lasting(now, found.shift, seen, settings=settings)
    slow = shift | (found.shift & found.gross)
    moved = [_moved(one, now, settings=settings) for one in (*before, now)]
    slow |= moved[-1] & (np.sum(moved, axis=0) >= settings.needed)
    together = _averaged(now, before, settings=settings)
    if together is not None:
        slow |= together.flags
    device = found.device & np.array(
        [1 + sum(int(rank) in one.device for one in before) >= settings.needed for rank in now.ranks],
        np.bool_,
    )
    tail = _lasting(now, found.tail, seen, settings=settings) & ~slow
    tail &= _more_than_chance(now, past, shift=slow, settings=settings)
    own = now.change.size if now.change is not None else None
    return Votes(shift=slow, tail=tail, device=device, own=own, together=together)


def _averaged(now: KernelDigest, before: Sequence[KernelDigest], *, settings: Settings) -> Average | None:
    """What the last windows and the running mean show, None without enough windows."""
    assert now.found is not None and now.effects is not None
    noise, mean = now.effects.noise, now.mean
    last = all_ = None
    windows = [*(parts_for(one, now=now) for one in before), now.parts]
    if len(windows) >= settings.of:
        last = averaged(windows, now.found, now.peers, noise=noise, mean=mean, settings=settings)
    if now.running is not None:
        all_ = over_all(now.running, windows, now.found, now.peers, noise=noise, mean=mean, settings=settings)
    return last.or_if_stronger(all_) if last is not None and all_ is not None else last or all_


def _lasting(
    now: KernelDigest,
    flags: Bools,
    before: Sequence[Pairs],
    *,
    settings: Settings,
) -> Bools:
    out = np.zeros(flags.shape, np.bool_)
    for k, r in np.argwhere(flags):
        pair = (now.keys[k], int(now.ranks[r]))
        out[k, r] = 1 + sum(pair in one for one in before) >= settings.needed
    return out


def _more_than_chance(
    now: KernelDigest, past: Sequence[KernelDigest], *, shift: Bools, settings: Settings
) -> Bools:
    """Tails that luck does not explain, among the ranks that are not slow as a whole. (kernel, rank)"""
    assert now.found is not None
    out = np.zeros(now.mean.shape, np.bool_)
    if not now.found.tail.any():
        return out
    place = {int(rank): i for i, rank in enumerate(now.ranks)}
    # Spikes of all windows that are remembered say how common they are; only the last ones must agree.
    known = [_hits_of(one.shift | one.tail, place) for one in past]
    spikes = _spikes_of([*past, now], place)
    pooled = now.found.tail.sum(axis=0) + sum(sum(_hits_of(one.tail, place).values()) for one in past)
    heavy = int((now.found.share >= settings.share).sum())
    last = 1 + len(known[-(settings.of - 1) :])
    for k in np.flatnonzero(now.found.tail.any(axis=1)):
        none = np.zeros(len(now.ranks), np.int64)
        mine = (now.found.tail[k] | now.found.shift[k]).astype(np.int64)
        before = [one.get(now.keys[k], none) for one in known]
        tested = np.flatnonzero(~shift[k])
        rate = rate_of_others(
            (mine + sum(before))[tested], pooled[tested], windows=1 + len(known), kernels=heavy
        )
        hits = (mine + sum(before[-(last - 1) :] if last > 1 else []))[tested]
        out[k, tested] = lasting(
            hits, windows=last, needed=settings.needed, rate=rate, spikes=spikes[now.keys[k]][tested]
        )
    return out


def _hits_of(pairs: Pairs, place: Mapping[int, int]) -> dict[tuple[int, int], Ints]:
    """Flags of one window by kernel, 0 or 1 for each of the present ranks. (rank,)"""
    hits: dict[tuple[int, int], Ints] = {}
    for key, rank in pairs:
        if rank in place:
            hits.setdefault(key, np.zeros(len(place), np.int64))[place[rank]] = 1
    return hits


def _spikes_of(
    windows: Sequence[KernelDigest], place: Mapping[int, int]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Long launches by kernel over all windows that are remembered, of each of the present ranks. (rank,)"""
    out: dict[tuple[int, int], NDArray[np.float64]] = {}
    for one in windows:
        for (key, rank), number in one.spikes.items():
            if rank in place:
                out.setdefault(key, np.zeros(len(place)))[place[rank]] += number
    return out


def _moved(one: KernelDigest, now: KernelDigest, *, settings: Settings) -> Bools:
    """Who is slower than before in the window `one`, in the order of the present kernels and ranks. (kernel, rank)"""
    assert now.found is not None
    if one.change is None or one.change.sure is None:
        return np.zeros(now.mean.shape, np.bool_)
    sure = aligned(one.change.sure, one, now=now, fill=0.0)
    heavy = now.found.is_compute & (now.found.share >= settings.share)
    return np.asarray((sure >= math.log1p(settings.effect)) & heavy[:, None])
