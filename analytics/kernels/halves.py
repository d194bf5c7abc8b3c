"""Ranks of one class that are two populations: half of them slow leaves no odd one out, but a gap."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from argus.analytics.kernels.peers import Bools, Ints, Peers, Places
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals

LUCK_SCALE, LUCK_CHANCE = 3.5, 0.6
"""Gap over spread that one normal population of n ranks shows with probability p: at most
`LUCK_SCALE` · (`LUCK_CHANCE` / p) ** (1 / (n − 2)), as simulated for 8 to 32 ranks and p from 1e-3 to 5e-6."""

MORE_OF_FEW = 8.0
"""The best cut of few ranks has by itself the wider gap, by as many parts in the number of ranks."""


def slower_half(
    values: Reals, peers: Peers, *, kernels: Ints, mean: Reals, noise: Reals, settings: Settings
) -> Bools:
    """Ranks of the slower of two populations of log effects of `kernels`, where means (log durations) agree by half."""
    gate = math.log1p(settings.effect)
    return two_populations(
        values,
        peers.by_class(kernels),
        gate=gate,
        settings=settings,
        noise=noise,
        mean=mean,
        mean_gate=gate / 2.0,
    )


def two_populations(
    values: Reals,
    classes: Iterable[tuple[Places, Ints]],
    *,
    gate: float,
    settings: Settings,
    noise: Reals | None = None,
    mean: Reals | None = None,
    mean_gate: float = 0.0,
) -> Bools:
    """The slower of two populations of a class, `gate` apart or more, if it is no more than half of it.

    `classes` are as of `Peers.by_class`. One is parted where that leaves least spread within (Otsu, A threshold selection method, 1979).
    All (kernel, rank); ranks without a value (NaN) belong to neither. The gap must stand out of the sampling error
    `noise` too, and where `mean` (log durations) is given, its typical values must lie `mean_gate` apart.
    """
    out = np.zeros(values.shape, np.bool_)
    everything = np.arange(len(values))
    for places, members in classes:
        if len(members) < settings.small_group:
            continue
        mine = values[places][:, members]
        spread = np.nanmax(mine, axis=1, initial=-np.inf) - np.nanmin(mine, axis=1, initial=np.inf)
        some = np.flatnonzero(spread >= gate)
        some = some[np.isfinite(mine[some]).sum(axis=1) >= settings.small_group]
        if len(some):
            place = np.ix_(everything[places][some], members)
            error: Reals = np.zeros(len(some), np.float32)
            if noise is not None:
                error = _mean(noise[place], np.isfinite(mine[some]))
            slower = mine[some] > _cut(mine[some], noise=error, settings=settings, gate=gate)[:, None]
            if mean is not None:
                slower &= (_means_apart(slower, mean[place]) >= mean_gate)[:, None]
            out[place] = slower
    return out


def least_gap(num: Ints, *, settings: Settings) -> Reals:
    """Gap between the populations of `num` ranks, in spreads within, that is none by luck.

    Two windows must agree, so that each may err at the root of the false-alarm budget.

    >>> least_gap(np.array([8, 12, 16, 32, 1024]), settings=Settings()).round(1).tolist()
    [24.2, 11.2, 8.0, 6.2, 5.0]
    """
    lucky = LUCK_SCALE * (LUCK_CHANCE / math.sqrt(settings.floor)) ** (1.0 / (num - 2))
    return np.asarray(np.maximum(lucky, _clear(num, settings=settings)))


def _clear(num: Ints, *, settings: Settings) -> Reals:
    """The same where the spread is known."""
    return np.asarray(settings.gap * (1.0 + MORE_OF_FEW / num))


def _means_apart(slower: Bools, mean: Reals) -> Reals:
    """How far the slower population's typical mean lies above the other's. (kernel,)"""
    known = np.isfinite(mean)
    return np.asarray(_mean(mean, slower & known) - _mean(mean, ~slower & known), np.float32)


def _mean(values: Reals, which: Bools) -> Reals:
    """Mean of some ranks. (kernel, rank) to (kernel,)"""
    return np.asarray(np.where(which, values, 0.0).sum(axis=1) / np.maximum(which.sum(axis=1), 1), np.float32)


def _cut(values: Reals, *, noise: Reals, settings: Settings, gate: float) -> Reals:
    """Value that parts each row into two populations, infinite where it is one. (kernel,)

    NaN is left out; at least `small_group` values of a row are none. `noise` (kernel,) is their sampling error.
    """
    num = np.isfinite(values).sum(axis=1)[:, None]
    ordered = np.nan_to_num(np.sort(values, axis=1).astype(np.float64), copy=False)  # NaN last
    n = np.arange(1, ordered.shape[1])[None, :]
    rest = np.maximum(num - n, 1)
    prefix, square = np.cumsum(ordered, axis=1), np.cumsum(ordered**2, axis=1)
    low = prefix[:, :-1] / n
    high = (prefix[:, -1:] - prefix[:, :-1]) / rest
    # The slower half at most is accused; fewer than a fifth are the scores' business.
    fewest = np.maximum(2, np.ceil(settings.least_population * num))
    is_cut = (n > (num - 1) // 2) & (n <= num - fewest)
    best = np.where(is_cut, (high - low) ** 2 * n * rest, -1.0).argmax(axis=1)
    at = np.arange(len(ordered))
    gap, num = (high - low)[at, best], num[:, 0]
    of_low = square[at, best] / (best + 1) - low[at, best] ** 2
    of_high = (square[:, -1] - square[at, best]) / rest[at, best] - high[at, best] ** 2
    within = np.maximum(np.maximum(of_low, of_high), settings.scale_floor**2)
    # What sampling explains of the spread is known; only the rest may be small by luck.
    unknown = np.sqrt(np.maximum(within - noise**2, settings.scale_floor**2))
    parted = (gap >= gate) & (gap >= least_gap(num, settings=settings) * unknown)
    parted &= gap >= _clear(num, settings=settings) * np.sqrt(np.maximum(within, noise**2))
    middle = (ordered[at, best] + ordered[at, best + 1]) / 2.0
    return np.where(parted, middle, np.inf).astype(np.float32)
