"""How far one kernel's comparison may be off, as its healthy peers show it."""

from __future__ import annotations

import numpy as np

from argus.analytics.kernels.effects import Effects
from argus.analytics.kernels.match import WEIGHED, weights
from argus.analytics.kernels.peers import Bools, Peers
from argus.analytics.kernels.scan import MAD_TO_SIGMA

FEWEST = 3
"""With fewer peers their spread says nothing, and the sampling error stands alone."""

UNSURE = 3.0
"""A spread of n peers is itself unsure: wider by this over n, three times it holds what three errors should."""


def standard_error(effects: Effects, peers: Peers, *, kernel: int, rank: int, accused: Bools) -> float:
    """Error of the log shift of one kernel on one rank, both places in the effects; `accused` (rank,).

    The sampling error, and never less than the robust spread of what median, mean and maximum together say of the
    healthy peers, before they must agree: the three share their launches, so their errors do not average out as those
    of independent numbers would, and of a handful of launches the quantiles tell no spread at all. Chips that differ
    are in it.
    """
    noise = float(effects.noise[kernel, rank])
    p50, tail, top = (part[kernel] for part in (effects.p50, effects.tail, effects.top))
    some = np.flatnonzero(np.isfinite(p50))
    parts = np.stack([p50, p50 + tail, np.where(tail == 0.0, np.nan, top)])
    weight = weights(parts[:, some[:: max(1, len(some) // WEIGHED)]])[0]
    of = peers.of_kernel(kernel).of
    here = (of == of[rank]) & ~accused & np.isfinite(p50)
    here[rank] = False
    if here.sum() < FEWEST:
        return noise
    told, known = parts[:, here], np.isfinite(parts[:, here])
    share = weight[:, None] * known
    estimate = (share * np.where(known, told, 0.0)).sum(axis=0) / np.maximum(share.sum(axis=0), 1e-30)
    spread = np.median(np.abs(estimate - np.median(estimate))) * MAD_TO_SIGMA
    return max(noise, float(spread) * (1.0 + UNSURE / len(estimate)))
