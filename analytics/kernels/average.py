"""Slowdowns too small for one window: what medians, means and maxima of the last windows say together.

A shift must show in median and mean, which takes the lesser of the two, and of two noisy numbers the lesser is too
small: averaged over windows it stays too small. So the windows are averaged first and gated afterwards, and what a
median, a mean or a maximum is worth is read off all of them: eight ranks are too few for that, three times eight
are not. Averaging shrinks the noise of sampling and leaves lasting differences between chips as they are, hence the
result is scored against its own spread over ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.effects import Effects
from argus.analytics.kernels.halves import slower_half
from argus.analytics.kernels.match import WEIGHED, combined, weights
from argus.analytics.kernels.peers import Bools, Ints, Peers
from argus.analytics.kernels.scan import Candidates, floored, least_effect, peer_spread
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import MANY, Reals, healthy_tail

Halves = NDArray[np.float16]

SAMPLING = 2.0
"""Spreads of its sampling error by which a window may fall short of what it stands for, one in forty times."""

Values = TypeVar("Values", Bools, Reals)


class Arrange(Protocol):
    """Puts (…, kernel, rank) into another order of kernels and ranks."""

    def __call__(self, values: Halves, /) -> Halves: ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One window's effects as its successors need them, (kernel, rank), NaN where a rank lacks the kernel.

    `top` is NaN too where modes could not be paired: another mix has another maximum. Three digits are enough of
    numbers that are averaged, and ten thousand ranks' windows are kept. `factor` (rank,) is what a rank's
    compute kernels share.
    """

    p50: Halves = field(repr=False)
    mean: Halves = field(repr=False)
    top: Halves = field(repr=False)
    factor: Reals = field(repr=False)

    @staticmethod
    def of(effects: Effects, factor: Reals) -> Parts:
        """What one window leaves. A tail of exactly nothing says that median and mean were not told apart."""
        return Parts(
            p50=effects.p50.astype(np.float16),
            mean=(effects.p50 + effects.tail).astype(np.float16),
            top=np.where(effects.tail == 0.0, np.nan, effects.top).astype(np.float16),
            factor=factor,
        )

    def rearranged(self, arrange: Arrange, *, factor: Reals) -> Parts:
        """For other kernels and ranks, whose `factor` (rank,) it was; those that `arrange` fills with NaN are new."""
        return Parts(p50=arrange(self.p50), mean=arrange(self.mean), top=arrange(self.top), factor=factor)


@dataclass(frozen=True, kw_only=True)
class Average:
    """The windows together, (kernel, rank): who stands out, by which log effect beyond what the rank's kernels share
    and by how many healthy spreads. NaN where nothing was asked."""

    flags: Bools
    beyond: Reals
    score: Reals

    def or_if_stronger(self, other: Average) -> Average:
        """Flags of both, each with the effect and the score of the one that shows it better."""
        theirs = other.flags & ~(self.flags & (self.score >= other.score))
        return Average(
            flags=self.flags | other.flags,
            beyond=np.where(theirs, other.beyond, self.beyond),
            score=np.where(theirs, other.score, self.score),
        )


def averaged(
    windows: Sequence[Parts],
    found: Candidates,
    peers: Peers,
    *,
    noise: Reals,
    mean: Reals,
    settings: Settings,
) -> Average:
    """Ranks whose average over `windows`, the present one last, stands out, and enough of these show it.

    Where half of the peers are slow, the averages fall into two populations. `found`, `noise` and `mean` (log
    durations) are those of the present window.
    """
    rows = asked(found, peers, settings=settings)
    beyond = _beyond(windows, rows)
    return judged(
        beyond,
        rows,
        found=found,
        peers=peers,
        noise=noise[rows],
        times=np.full((len(rows), 1), len(windows)),
        windows=windows,
        mean=mean,
        seen=_seen(windows, rows, beyond, settings=settings) & lasts(windows[-1], rows, beyond, noise=noise),
        settings=settings,
    )


def asked(found: Candidates, peers: Peers, *, settings: Settings) -> Ints:
    """Kernels whose averages are looked at: those that can be flagged, all others of compute where these are too few
    to show a tail."""
    heavy = _heavy(found, settings=settings)
    return np.flatnonzero(heavy if heavy.sum() * len(peers.ranks) >= MANY else found.is_compute)


def _heavy(found: Candidates, *, settings: Settings) -> Bools:
    return np.asarray((found.share >= settings.share) & found.is_compute)


def judged(
    beyond: Reals,
    rows: Ints,
    *,
    found: Candidates,
    peers: Peers,
    noise: Reals,
    times: Ints,
    windows: Sequence[Parts],
    mean: Reals,
    seen: Bools,
    settings: Settings,
) -> Average:
    """Who stands out in averages `beyond` (row, rank) of the kernels `rows`, where single windows have `seen` it.

    `noise` (row, rank) is one window's sampling error, and `times` (row, 1) the windows of an average; `mean` (kernel,
    rank) is that of the present window, the last of `windows`.
    """
    noise = np.asarray(noise / np.sqrt(times, dtype=np.float32), np.float32)
    spread = peer_spread(beyond)
    score = beyond / floored(spread.robust, noise, settings=settings)
    flags = score >= healthy_tail(score).threshold(found.probability)
    flags &= peers.num_peers(rows) >= settings.small_group
    flags &= beyond >= least_effect(
        found.share[rows],
        spread,
        is_compute=found.is_compute[rows],
        probability=found.probability,
        settings=settings,
    )
    flags |= _halves(
        beyond, rows, peers=peers, noise=noise, times=times, windows=windows, mean=mean, settings=settings
    )
    flags &= _heavy(found, settings=settings)[rows][:, None] & seen
    return Average(
        flags=_spread_out(flags, rows, like=mean),
        beyond=_spread_out(beyond, rows, like=mean),
        score=_spread_out(score, rows, like=mean),
    )


def _halves(
    beyond: Reals,
    rows: Ints,
    *,
    peers: Peers,
    noise: Reals,
    times: Ints,
    windows: Sequence[Parts],
    mean: Reals,
    settings: Settings,
) -> Bools:
    """The slower of two populations, also by how far the windows stray; all as of `judged`. (row, rank)"""
    out = slower_half(beyond, peers, kernels=rows, mean=mean[rows], noise=noise, settings=settings)
    some = np.flatnonzero(out.any(axis=1))  # few: how far windows stray is dear to ask of all
    noise = np.fmax(noise[some], _strays(windows, rows[some]) / np.sqrt(times[some], dtype=np.float32))
    rows = rows[some]
    out[some] = slower_half(
        beyond[some], peers, kernels=rows, mean=mean[rows], noise=noise, settings=settings
    )
    return out


def lasts(now: Parts, rows: Ints, beyond: Reals, *, noise: Reals) -> Bools:
    """Where the present window shows half of what the windows say together, as far as its own `noise` (kernel, rank)
    tells: what was gross and is over lasts in a mean. (row, rank)"""
    return np.asarray(now.mean[rows] - now.factor + SAMPLING * noise[rows] >= beyond / 2)


def _strays(windows: Sequence[Parts], rows: Ints) -> Reals:
    """How far medians or means, whichever do less, stray from window to window, 0 where that is not known. (row, rank)

    Launches of a window that belong together, as those of one batch, stray further than their spread inside it says.
    """
    if len(windows) < 2:
        return np.zeros((len(rows), windows[0].p50.shape[1]), np.float32)
    p50 = np.array([window.p50[rows] - window.factor for window in windows])
    mean = np.array([window.mean[rows] - window.factor for window in windows])
    return np.asarray(
        np.nan_to_num(np.minimum(p50.std(axis=0, ddof=1), mean.std(axis=0, ddof=1))), np.float32
    )


def _spread_out(values: Values, rows: Ints, *, like: Reals) -> Values:
    """Rows back to their places among all kernels, false or NaN elsewhere. (kernel, rank)"""
    out = np.full(like.shape, False if values.dtype == np.bool_ else np.nan, values.dtype)
    out[rows] = values
    return out


def _beyond(windows: Sequence[Parts], rows: Ints) -> Reals:
    """Effect of the compute kernels `rows` beyond what they share, over all windows. (row, rank)"""
    out = np.empty((len(rows), windows[0].p50.shape[1]), np.float32)
    factor = np.mean([window.factor for window in windows], axis=0, dtype=np.float32)
    for place, kernel in enumerate(rows):
        seen = np.array([(w.p50[kernel], w.mean[kernel], w.top[kernel]) for w in windows], np.float32)
        present = np.isfinite(seen[:, 0]).all(axis=0)
        some = np.flatnonzero(present)
        some = some[:: max(1, len(some) // WEIGHED)]
        weight, _ = weights(seen[:, :, some].transpose(1, 0, 2).reshape(3, -1))
        out[place] = np.where(present, combined(_means(seen), weight) - factor, np.nan)
    return out


def _means(seen: Reals) -> Reals:
    """Mean of the windows in which it is known, NaN without any. (window, part, rank) to (part, rank)"""
    known = np.isfinite(seen)
    times = known.sum(axis=0)
    total = np.where(known, seen, np.float32(0.0)).sum(axis=0)
    return np.where(times > 0, total / np.maximum(times, 1), np.nan).astype(np.float32)


def half_gate(settings: Settings) -> np.float32:
    """Log effect that a single window's mean must show: half of what all windows must."""
    return np.float32(np.log1p(settings.clear) / 2.0)


def _seen(windows: Sequence[Parts], rows: Ints, beyond: Reals, *, settings: Settings) -> Bools:
    """Where the means of the present window and of enough in all show half the effect. (row, rank)

    And a quarter of what they say together: a fault that begins would else have a chip's own hundredth for a witness.
    """
    least = np.maximum(half_gate(settings), beyond / 4)
    shown = [window.mean[rows] >= window.factor + least for window in windows]
    return np.asarray(shown[-1] & (np.sum(shown, axis=0) >= settings.needed))
