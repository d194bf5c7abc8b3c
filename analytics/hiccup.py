"""Whether an excess lasts through a window, or is a step or two that went badly."""

from __future__ import annotations

import numpy as np

from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.view import Digest
from argus.analytics.window import Bools, Floats, Ints, Window

LEFT_OUT = 2
"""The worst steps of a window that must not be all there is: of every third step of ten one is left."""

LEFT_PART = 1 / 3
"""What must be left of the mean excess without them."""

OWN_PART = 0.3
"""Own work that shows at least this part of a lateness is what it comes from."""


def lasts(times: Floats, classes: Ints) -> Bools:
    """Ranks whose excess over their peers does not rest on one or two steps; times (rank, usable step). (rank,)

    Of few steps fewer are left out; a rank without any excess lasts too, for there is nothing to doubt.
    """
    num = times.shape[1]
    excess = np.nan_to_num(times.T - peer_medians(times.T, classes))
    if not num:
        return np.ones(len(times), np.bool_)
    kept = np.sort(excess, axis=0)[: num - min(LEFT_OUT, num // 4)]
    mean = excess.mean(axis=0)
    return np.asarray((mean <= 0) | (kept.mean(axis=0) >= LEFT_PART * mean))


def late_by_hiccup(window: Window, digest: Digest) -> Bools:
    """Ranks whose lateness comes from own work of a step or two. (rank,)"""
    own = window.self_s.sum(axis=0)[:, window.usable]
    excess = np.nan_to_num(digest.own_s - digest.own_peers_s)
    from_own = excess >= OWN_PART * np.nan_to_num(digest.late_s)
    return np.asarray(from_own & (excess > 0) & ~lasts(own, work_classes(window.topology, window.ranks)))
