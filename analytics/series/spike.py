"""Whether one step time lies far above those before it (argus-paper.md §9 row 15)."""

from __future__ import annotations

import numpy as np

from argus.analytics.window import Floats

MIN_RATIO = 1.5
"""The paper's gate for a step against the rolling median."""

MIN_SCALES = 6.0
"""Robust scales above the median: beyond the heavy tail of a healthy series."""

ROLLING = 20
MIN_BEFORE = 10


def usual_if_spike(
    earlier: Floats,
    value: float,
    *,
    min_ratio: float = MIN_RATIO,
    min_scales: float = MIN_SCALES,
    rolling: int = ROLLING,
    min_before: int = MIN_BEFORE,
) -> float | None:
    """The rolling median if `value` is a spike above it, else None; NaN values before do not count."""
    earlier = earlier[np.isfinite(earlier)][-rolling:]
    if not np.isfinite(value) or len(earlier) < min_before:
        return None
    usual = float(np.median(earlier))
    scale = 1.4826 * float(np.median(np.abs(earlier - usual)))
    return usual if value >= min_ratio * usual and value - usual >= min_scales * scale else None
