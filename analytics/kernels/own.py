"""A device against its own past: which of its kernels surely became slower, whoever else did too.

Half of the peers slow leaves no odd one out, most of them slow makes the healthy ones odd; what each device did
before tells them apart. What a device is accused of is kept out of its past, or a fault would be its normal after
some windows: as long as it lasts, the window counts as what it would have been had the device moved with the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.match import WEIGHED
from argus.analytics.kernels.peers import Bools, Peers
from argus.analytics.kernels.scan import MAD_TO_SIGMA
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals

Halves = NDArray[np.float16]

CHANGE_SCORE = 8.0
"""Spreads a device must move against its own past; it is told only with a second window."""

QUIET, QUIET_TO_SIGMA = 10, 8.0
"""One device in ten is taken for steady; of a normal's sizes the smallest tenth ends at an eighth of σ."""

FEWEST = 3
"""Devices of a class that know their past, below which nobody says what the job did to all."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One window against the past, all (kernel, rank), as log ratios.

    `size`: beyond what the class's steadiest tenth did, NaN where not known, None once the window is past; `sure`:
    the lesser of that and of the change as such, 0 where the spread may be all there is; `excess`: what the accused
    have beyond the others and is no part of their past, 0 of everybody else. The last two are None where they are
    nothing.
    """

    size: Reals | None = field(repr=False)
    sure: Halves | None = field(repr=False)
    excess: Halves | None = field(repr=False)

    def slim(self) -> Change:
        """Without what only the window itself needs."""
        return replace(self, size=None)


def change(
    now: Reals,
    usual: Reals,
    *,
    seen: Reals,
    held: Reals | None,
    asked: Bools,
    peers: Peers,
    noise: Reals,
    settings: Settings,
) -> Change:
    """Change of log durations `now` (kernel, rank) against the windows before.

    `usual` (window, kernel, rank): these windows without what anybody is accused of; `seen`: as they were, of some of
    the ranks. `held` (kernel, rank): the excess of the last of them. All are NaN where not known, and kernels and
    ranks are those of `now`. `noise` (kernel, rank) is the sampling error inside the window. Nobody is accused of
    other kernels than those `asked` (kernel,).
    """
    moved = now - _typical(usual, least=settings.history_windows)
    size = _beyond_steady(moved, peers)
    spread = np.maximum(_quiet(size), np.float32(math.sqrt(2.0)) * np.fmax(noise, scatter(seen)))
    with np.errstate(invalid="ignore"):
        surely = asked[:, None] & (size >= CHANGE_SCORE * np.fmax(spread, np.float32(settings.scale_floor)))
        sure = np.where(surely, np.maximum(np.minimum(size, moved), 0.0), np.float32(0.0))
    excess = _excess(moved, sure >= math.log1p(settings.effect), held=held, peers=peers, settings=settings)
    return Change(
        size=size,
        sure=sure.astype(np.float16) if sure.any() else None,
        excess=excess,
    )


def sample(windows: Reals) -> Reals:
    """Some of the ranks (…, rank), enough to tell a spread from."""
    return windows[..., :: max(1, windows.shape[-1] // WEIGHED)].copy()


def _typical(usual: Reals, *, least: int) -> Reals:
    """Median of the windows, NaN where fewer than `least` are known. (window, kernel, rank) to (kernel, rank)"""
    ordered = np.sort(usual, axis=0)  # NaN last
    count = np.isfinite(ordered).sum(axis=0)
    middle = np.take_along_axis(ordered, np.maximum(count - 1, 0)[None] // 2, axis=0)[0]
    return np.where(count >= least, middle, np.nan).astype(np.float32)


def _beyond_steady(moved: Reals, peers: Peers) -> Reals:
    """Changes beyond those of the class's steadiest tenth: what falls on all is the job's, not a rank's. (kernel, rank)

    Sees up to nine tenths of the peers turn slow together.
    """
    out = np.full(moved.shape, np.nan, np.float32)
    everything = np.arange(len(moved))
    for places, members in peers.by_class(everything):
        if len(members) >= FEWEST:
            mine = moved[places][:, members]
            steady, count = _tenth(mine)
            out[np.ix_(everything[places], members)] = np.where(count >= FEWEST, mine - steady, np.nan)
    return out


def _quiet(size: Reals) -> Reals:
    """How large a change is none, as the quietest tenth of the devices says. (kernel, 1)"""
    return _tenth(np.abs(size))[0] * np.float32(QUIET_TO_SIGMA)


def _tenth(values: Reals) -> tuple[Reals, NDArray[np.int64]]:
    """The value below which a tenth of those lie that are known, and how many these are. (kernel, n) to (kernel, 1)"""
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1, keepdims=True)
    at = np.minimum(count // QUIET, ordered.shape[1] - 1)
    return np.take_along_axis(ordered, at, axis=1), count


def _excess(
    moved: Reals, accused: Bools, *, held: Reals | None, peers: Peers, settings: Settings
) -> Halves | None:
    """What the accused have beyond the others of their class, None where nobody is. (kernel, rank)

    Who was accused before stays so while half of it is still there: a fault that wavers about the threshold would
    else become its own past.
    """
    before = accused if held is None else accused | (held > 0)
    out = np.zeros(moved.shape, np.float16)
    least = math.log1p(settings.effect) / 2.0
    everything = np.arange(len(moved))
    for places, members in peers.by_class(everything) if before.any() else ():
        some = everything[places]
        some = some[before[np.ix_(some, members)].any(axis=1)]
        place = np.ix_(some, members)
        mine, was, is_accused = moved[place], before[place], accused[place]
        beyond = np.nan_to_num(mine - _median(np.where(was, np.nan, mine)))
        enough = least if held is None else np.maximum(held[place] / 2.0, least)
        out[place] = np.where(was & (is_accused | (beyond >= enough)), beyond, 0.0)
    return out if out.any() else None


def scatter(seen: Reals) -> Reals:
    """Robust sampling error of a window (window, kernel, rank), from how ranks move between windows. (kernel, 1)

    Spread of the durations inside a window says too little: where the mix of launches differs from window to window,
    it is the mix that strays. What all ranks do alike is left out.
    """
    last = seen.copy()
    for window in range(1, len(last)):
        last[window] = np.where(np.isfinite(last[window]), last[window], last[window - 1])
    moved = seen[1:] - last[:-1]
    moved -= _median(moved)
    size = _median(np.abs(moved).transpose(1, 0, 2).reshape(moved.shape[1], -1))
    return np.asarray(np.nan_to_num(size) * np.float32(MAD_TO_SIGMA / math.sqrt(2.0)), np.float32)


def _median(values: Reals) -> Reals:
    """Median of what is finite along the last axis, NaN where nothing is. (…, n) to (…, 1)"""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.isfinite(ordered).sum(axis=-1, keepdims=True)
    return np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)
