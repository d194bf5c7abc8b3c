"""The compression ratio of each rank as a series: a sudden fall says that something stopped repeating."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.kernels.digest import KernelDigest
from argus.analytics.kernels.peers import Bools
from argus.analytics.kernels.tail import Reals
from argus.analytics.view import View

FALL = 0.5
"""A healthy ratio stays within a few per cent; half is twice as many modes for the same launches. Fewer launches, such as
those of fewer micro-batches, lower it too and say nothing: they are counted as if there had been as many as before."""

LEAST_WINDOWS = 3
NEEDED, OF = 2, 3


def ratio_falls(view: View, now: KernelDigest, past: Sequence[KernelDigest]) -> list[Finding]:
    """One finding with all the ranks whose ratio fell to half of their own past, in two of three windows.

    What fewer launches alone explain is no fall.
    """
    assert view.window is not None
    series, flags = _series([*past, now])
    ranks = np.flatnonzero(flags)
    if not len(ranks):
        return []
    before = np.nanmedian(np.stack(series[:-OF] or series[:-1]), axis=0)
    worst = int(ranks[np.argmin(now.ratio[ranks] / before[ranks])])
    members = tuple(sorted(int(rank) for rank in now.ranks[ranks]))
    return [
        Finding(
            run=view.run,
            attempt=view.attempt,
            window=view.window.index,
            level="L3",
            detector="l3_kernel",
            kind="ratio_fall",
            role="notice",
            ranks=members,
            nodes=tuple(f"rank:{rank}" for rank in members),
            start_step=view.window.first_step,
            end_step=view.window.first_step + view.window.num_steps - 1,
            ratio=float(now.ratio[worst] / before[worst]),
            evidence=(
                Evidence(
                    name="compression_ratio",
                    value=float(now.ratio[worst]),
                    baseline=float(before[worst]),
                    note="something here stopped repeating",
                ),
            ),
        )
    ]


def _series(windows: Sequence[KernelDigest]) -> tuple[list[Reals], Bools]:
    """The ratios of the devices of the last window, and which of these devices have fallen."""
    series = [_aligned(one.ratio, one, now=windows[-1]) for one in windows]
    events = [_aligned(one.events, one, now=windows[-1]) for one in windows]
    lasts = range(len(series), max(len(series) - OF, LEAST_WINDOWS), -1)
    fallen = [_fallen(series[:last], events[:last]) for last in lasts]
    if len(fallen) < NEEDED:
        return series, np.zeros(len(series[-1]), np.bool_)
    return series, np.asarray(fallen[0] & (np.sum(fallen, axis=0) >= NEEDED))


def _fallen(series: Sequence[Reals], events: Sequence[Reals]) -> Bools:
    """Ranks whose last ratio, for as many launches as before, is below half of what it was before the last few."""
    before, launches = _before(series), _before(events)
    fewer = np.minimum(events[-1] / np.maximum(launches, np.float32(1.0)), np.float32(1.0))
    return np.asarray(series[-1] < FALL * before * fewer)


def _before(series: Sequence[Reals]) -> Reals:
    """Median of each rank before the last few windows, NaN where not known."""
    past = np.stack(series[: max(len(series) - OF, LEAST_WINDOWS - 1)])
    known = np.isfinite(past).any(axis=0)
    return np.asarray(np.where(known, np.nanmedian(np.where(known, past, 0.0), axis=0), np.nan), np.float32)


def _aligned(values: Reals, one: KernelDigest, *, now: KernelDigest) -> Reals:
    """A window's values (rank,) in the order of the present devices, NaN where not known."""
    if one.devices == now.devices:
        return values
    of = dict(zip(one.devices, values.tolist(), strict=True))
    return np.array([of.get(device, np.nan) for device in now.devices], np.float32)
