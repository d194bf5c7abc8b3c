"""The compression ratio of each rank as a series: a sudden fall says that something stopped repeating."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.kernel_digest import KernelDigest
from argus.analytics.kernel_tail import Reals
from argus.analytics.view import View

FALL = 0.5
"""A healthy ratio stays within a few per cent; half is twice as many modes for the same launches."""

LEAST_WINDOWS = 3
NEEDED, OF = 2, 3


def ratio_falls(view: View, now: KernelDigest, past: Sequence[KernelDigest]) -> list[Finding]:
    """One finding with all the ranks whose ratio fell to half of their own past, in two of three windows."""
    assert view.window is not None
    series = [_aligned(one, now) for one in (*past, now)]
    fallen = [_fallen(series[: len(series) - back]) for back in range(min(OF, len(series) - LEAST_WINDOWS))]
    if len(fallen) < NEEDED:
        return []
    flags = fallen[0] & (np.sum(fallen, axis=0) >= NEEDED)
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


def _fallen(series: Sequence[Reals]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Ranks whose last ratio is below half of the median of those before the last few."""
    before = np.stack(series[: max(len(series) - OF, LEAST_WINDOWS - 1)])
    known = np.isfinite(before).any(axis=0)
    median = np.nanmedian(np.where(known, before, 1.0), axis=0)
    return np.asarray(known & (series[-1] < FALL * median))


def _aligned(one: KernelDigest, now: KernelDigest) -> Reals:
    """A window's ratios in the order of the present devices, NaN where not known."""
    if one.devices == now.devices:
        return one.ratio
    of = dict(zip(one.devices, one.ratio.tolist(), strict=True))
    return np.array([of.get(device, np.nan) for device in now.devices], np.float32)
