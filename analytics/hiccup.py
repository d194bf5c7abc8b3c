"""Whether an excess lasts through a window, or is a step or two that went badly; and where those come again and again.

A step that goes badly now and then is nobody's fault. Where a host, or a rank of a lone host, has one in window after
window and the others have hardly any, something visits it: the windows with one are compared with what the others' rate
brings by chance (Poisson, as for bouts in `recurrence`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.robust import median_of_columns
from argus.analytics.view import Digest
from argus.analytics.window import Bools, Floats, Ints, Window
from argus.topology.layout import Topology

LEFT_OUT = 2
"""The worst steps of a window that must not be all there is: of every third step of ten one is left."""

LEFT_PART = 1 / 3
"""What must be left of the mean excess without them."""

MIN_SHARE = 0.02
"""A hiccup that costs less of its window than this is worth nobody's time."""

LAST_WINDOWS = 10
"""Windows whose hiccups are counted."""

MIN_WINDOWS = 3
"""Once is an accident, twice is a coincidence."""

CHANCE = 0.005
"""That the others' rate brings any host so many: the votes that follow ask for one more."""

UNSEEN = 0.5
"""Added to the others' hiccups: none at all in so few windows is no rate of zero."""

OWN_PART = 0.3
"""Own work that shows at least this part of a lateness is what it comes from."""


def lasts(times: Floats, classes: Ints) -> Bools:
    """Ranks whose excess over their peers does not rest on one or two steps; times (rank, usable step). (rank,)

    Of few steps fewer are left out; a rank without any excess lasts too, for there is nothing to doubt.
    """
    return _lasts(_excess(times, classes))


def _lasts(excess: Floats) -> Bools:
    num = len(excess)
    if not num:
        return np.ones(excess.shape[1], np.bool_)
    kept = np.sort(excess, axis=0)[: num - min(LEFT_OUT, num // 4)]
    mean = excess.mean(axis=0)
    return np.asarray((mean <= 0) | (kept.mean(axis=0) >= LEFT_PART * mean))


def one_step(times: Floats, classes: Ints) -> Floats:
    """Seconds of each rank's mean excess that its worst step alone brings: by what it exceeds the next worst. (rank,)"""
    excess = _excess(times, classes)
    if len(excess) < 2:
        return np.zeros(excess.shape[1])
    next_worst, worst = np.sort(excess, axis=0)[-2:]
    return np.asarray((worst - next_worst) / len(excess))


def _excess(times: Floats, classes: Ints) -> Floats:
    """Times beyond the peers' in each step, none where a rank was not seen. (step, rank)"""
    missing = ~np.isfinite(times)
    some = missing.any(axis=1) & ~missing.all(axis=1)
    if some.any():  # a step that was lost makes nobody absent
        times = times.copy()
        for number in np.unique(classes[some]):
            usual = median_of_columns(times[classes == number])
            rows = some & (classes == number)
            times[rows] = np.where(missing[rows], usual, times[rows])
    return np.nan_to_num(times.T - peer_medians(times.T, classes))


def hiccups_of(window: Window, own: Floats, *, step_s: float) -> tuple[int, ...]:
    """Ranks whose own work (rank, step) costs more of the window than their peers', but in one or two steps alone."""
    times, classes = own[:, window.usable], work_classes(window.topology, window.ranks)
    if not times.shape[1] or not step_s > 0:
        return ()
    excess = _excess(times, classes)
    found = (excess.mean(axis=0) >= MIN_SHARE * step_s) & ~_lasts(excess)
    return tuple(window.ranks[found].tolist())


def recurs(digests: Sequence[Digest], topology: Topology, ranks: Ints) -> Bools:
    """Of `ranks` those with a hiccup in the newest of `digests` and, with their host, in more before than chance brings."""
    places = {rank: topology.host_of(rank) for rank in ranks.tolist()}
    if len(set(places.values())) < 2:
        places = {rank: str(rank) for rank in places}
    recent = [set(digest.hiccups) & places.keys() for digest in digests[-LAST_WINDOWS:]]
    visits = dict.fromkeys(places.values(), 0)
    for hit in recent:
        for place in {places[rank] for rank in hit}:
            visits[place] += 1
    often = {place for place, num in visits.items() if _is_often(num, visits)}
    return np.array(
        [
            rank in recent[-1] and places[rank] in often and sum(rank in hit for hit in recent) >= MIN_WINDOWS
            for rank in places
        ]
    )


def _is_often(num: int, visits: Mapping[str, int]) -> bool:
    """Whether so many windows come too rarely by the rate of the other places, to any of them all."""
    if num < MIN_WINDOWS or len(visits) < 2:
        return False
    expected = (sum(visits.values()) - num + UNSEEN) / (len(visits) - 1)
    below = sum(expected**k / math.factorial(k) for k in range(num)) * math.exp(-expected)
    return len(visits) * (1.0 - below) <= CHANCE


def late_by_hiccup(window: Window, digest: Digest) -> Bools:
    """Ranks whose lateness comes from own work of a step or two. (rank,)"""
    own = window.self_s.sum(axis=0)[:, window.usable]
    excess = np.nan_to_num(digest.own_s - digest.own_peers_s)
    from_own = excess >= OWN_PART * np.nan_to_num(digest.late_s)
    return np.asarray(from_own & (excess > 0) & ~lasts(own, work_classes(window.topology, window.ranks)))
