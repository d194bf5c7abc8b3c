"""The published L3 rule, for comparison: s > Q3 + α·IQR on mean pairwise W₁ (ARGUS §6.2, Eq. 2–4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.distance import GRID, cdf_profile, mean_w1
from argus.analytics.kernels.mixture import fit
from argus.analytics.kernels.peers import Bools, Floats, Peers
from argus.analytics.kernels.table import Kernel

ALPHA = 1.5
"""The sources state no value; 1.5 is Tukey's own and what the one public re-implementation uses."""


def paper_scores(kernel: Kernel, peers: Peers, *, points: int = GRID) -> Floats:
    """Mean W₁ of each rank to its peers in nanoseconds, from (count, p50, p99) alone. (rank,)"""
    unknown = np.full(kernel.count.T.shape, np.nan)
    shape = fit(
        kernel.count.T.astype(np.int64),
        kernel.log_p50.T.astype(np.float64),
        log_p99=kernel.log_p99.T.astype(np.float64),
        log_max=unknown,
        log_mean=unknown,
    )
    present = kernel.count.sum(axis=0) > 0
    out = np.full(len(present), np.nan)
    for rows in peers.rows:
        members = rows[rows >= 0]
        members = members[present[members]]
        if len(members) > 1:
            out[members] = mean_w1(cdf_profile(shape.of(members), points=points))
    return out


def paper_flags(scores: NDArray[np.floating], peers: Peers, *, alpha: float = ALPHA) -> Bools:
    """Eq. 4 within each class of peers. (rank,)"""
    flags = np.zeros(len(scores), np.bool_)
    for rows in peers.rows:
        members = rows[rows >= 0]
        members = members[np.isfinite(scores[members])]
        if len(members) > 1:
            low, high = np.quantile(scores[members], [0.25, 0.75])
            flags[members] = scores[members] > high + alpha * (high - low)
    return flags
