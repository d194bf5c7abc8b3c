"""Slowdowns too small for three windows: the mean of all windows so far, of which old ones fade.

A kernel with few or widely strewn launches hides a slowdown in a window's sampling error, which falls with the root
of the windows that are averaged while the slowdown stays. So each (kernel, rank) carries one running mean, whatever
the length of the run: of the first `MEMORY` windows it is the plain mean, then the newest counts for one in so many
(an exponentially weighted mean: S. W. Roberts, Control chart tests based on geometric moving averages, 1959). It is
asked in every window at the same false-alarm budget as the others, and told only while the newest window and most of
the others show it too: one gross window among healthy ones lasts in a mean, and is no lasting slowdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.average import Average, Parts, asked, half_gate, judged, lasts
from argus.analytics.kernels.match import WEIGHED, combined, weights
from argus.analytics.kernels.peers import Ints, Peers
from argus.analytics.kernels.scan import Candidates
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals

MEMORY = 32
"""Windows of memory. In the end the mean's error is that of 2 · 32 − 1 windows, an eighth of one window's: what is
a standard error in one window, and hence nothing, is eight. A fault that begins late is seen within as many."""

Counts = NDArray[np.uint8]

T = TypeVar("T", np.float32, np.uint8)


class Arrange(Protocol):
    """Puts (…, kernel, rank) into another order of kernels and ranks."""

    def __call__(self, values: NDArray[T], /) -> NDArray[T]: ...


@dataclass(frozen=True, kw_only=True)
class Running:
    """Effects beyond what a rank's kernels share, over the windows so far.

    `value` and `times` (part, kernel, rank): mean effect in median, mean and maximum, and of how many windows,
    `MEMORY` at most; `shown` (kernel, rank): part of them whose mean showed half the effect gate.
    """

    value: Reals = field(repr=False)
    times: Counts = field(repr=False)
    shown: Reals = field(repr=False)

    @staticmethod
    def empty(shape: tuple[int, int]) -> Running:
        """Before the first window of so many kernels and ranks."""
        return Running(
            value=np.zeros((3, *shape), np.float32),
            times=np.zeros((3, *shape), np.uint8),
            shown=np.zeros(shape, np.float32),
        )

    def rearranged(self, arrange: Arrange) -> Running:
        """For other kernels and ranks; those that `arrange` fills with noughts are new."""
        return Running(value=arrange(self.value), times=arrange(self.times), shown=arrange(self.shown))

    def extended(self, window: Parts, *, settings: Settings) -> Running:
        """With one window more, of the same kernels and ranks; what it does not know stays as it was."""
        value, times = np.empty_like(self.value), np.empty_like(self.times)
        shown = self.shown
        for part, effect in enumerate((window.p50, window.mean, window.top)):
            seen = effect.astype(np.float32) - window.factor
            known = np.isfinite(seen)
            times[part] = np.minimum(self.times[part] + known, MEMORY)
            weight = known / np.maximum(times[part], np.float32(1.0))
            value[part] = self.value[part] + weight * (np.where(known, seen, 0.0) - self.value[part])
            if effect is window.mean:
                shown = self.shown + weight * ((seen >= half_gate(settings)) - self.shown)
        return Running(value=value, times=times, shown=shown)


def over_all(
    running: Running,
    windows: Sequence[Parts],
    found: Candidates,
    peers: Peers,
    *,
    noise: Reals,
    mean: Reals,
    settings: Settings,
) -> Average:
    """Ranks that stand out in the running mean, which includes `windows`, the last ones with the present at the end.

    Nothing is asked of kernels seen in no more windows than are averaged anyway, nor of ranks seen in fewer than
    their peers. `found`, `noise` and `mean` (log durations) are those of the present window.
    """
    rows, now = asked(found, peers, settings=settings), windows[-1]
    most = running.times[0, rows].max(axis=1, initial=0)
    rows, most = rows[most > settings.of], most[most > settings.of]
    half = half_gate(settings)
    beyond = _beyond(running, rows)
    return judged(
        beyond,
        rows,
        found=found,
        peers=peers,
        noise=noise[rows],
        times=most[:, None].astype(np.int64),
        windows=windows,
        mean=mean,
        seen=(now.mean[rows] >= now.factor + half)
        & (running.shown[rows] >= settings.needed / settings.of)
        & lasts(now, rows, beyond, noise=noise),
        settings=settings,
    )


def _beyond(running: Running, rows: Ints) -> Reals:
    """Effect of the kernels `rows`, NaN on ranks that were not seen as often as others. (row, rank)

    A maximum helps where it is known of half of the windows: with few launches modes are often merged.
    """
    out = np.empty((len(rows), running.shown.shape[1]), np.float32)
    for place, kernel in enumerate(rows):
        times = running.times[:, kernel]
        parts = np.where(2 * times.astype(np.int64) >= times[0].max(), running.value[:, kernel], np.nan)
        parts[0, times[0] < times[0].max()] = np.nan
        some = np.flatnonzero(np.isfinite(parts[0]))
        weight, _ = weights(parts[:, some[:: max(1, len(some) // WEIGHED)]])
        out[place] = combined(parts, weight)
    return out
