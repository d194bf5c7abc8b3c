"""Whether an excess lasts through a window, or is a step or two that went badly; and where those come again and again.

A step that goes badly now and then is nobody's fault. Where a rank, or now one rank of a host and now another, has one in
window after window and those of other hosts have hardly any, something visits it: the windows with one are compared with
what the others' rate brings by chance (Poisson, as for bouts in `recurrence`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from argus.analytics.pauses import told_s
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
"""That the others' rate brings any rank or any host so many: the votes that follow ask for one more."""

TESTS = 2
"""The rank's own windows and those of its host share the chance."""

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
    """Ranks whose own work (rank, step) costs more of the window than their peers', but in one or two steps alone.

    What the runtime tells of itself is no riddle: those pauses are counted by their own rule (`pauses`).
    """
    alone = np.maximum(own - told_s(window), 0.0)
    times, classes = alone[:, window.usable], work_classes(window.topology, window.ranks)
    if not times.shape[1] or not step_s > 0:
        return ()
    excess = _excess(times, classes)
    found = (excess.mean(axis=0) >= MIN_SHARE * step_s) & ~_lasts(excess)
    return tuple(window.ranks[found].tolist())


def recurs(digests: Sequence[Digest], topology: Topology, ranks: Ints) -> Bools:
    """Of `ranks` those with a hiccup in the newest of `digests` and, with their host, in more before than chance brings."""
    hits = _hits(digests, ranks)
    often = _visited(hits, topology, ranks)
    newest = digests[-1].hiccups if digests else ()
    return np.array([rank in newest and rank in often for rank in ranks.tolist()], np.bool_)


def visited_with(digests: Sequence[Digest], topology: Topology, rank: int) -> tuple[int, ...]:
    """Ranks of the host of `rank` that are visited as it is, itself included; none where it is not, or is on a lone host."""
    host, ranks = topology.host_of(rank), digests[-1].ranks if digests else np.empty(0, np.int64)
    often = _visited(_hits(digests, ranks), topology, ranks)
    if rank not in often or not host or len({topology.host_of(r) for r in ranks.tolist()}) < 2:
        return ()
    return tuple(r for r in topology.ranks_of_host(host) if r in often)


def _hits(digests: Sequence[Digest], ranks: Ints) -> dict[int, set[int]]:
    """Places among the last windows in which each of `ranks` had a hiccup; those that had none are left out."""
    known, hits = set(ranks.tolist()), dict[int, set[int]]()
    for place, digest in enumerate(digests[-LAST_WINDOWS:]):
        for rank in known.intersection(digest.hiccups):
            hits.setdefault(rank, set()).add(place)
    return hits


def _visited(hits: Mapping[int, set[int]], topology: Topology, ranks: Ints) -> frozenset[int]:
    """Ranks with enough windows of their own, where these, or those of their host, are too many for chance.

    What visits a host visits all of it: a rank is compared with those of other hosts, where there are others.
    """
    host_of = {rank: topology.host_of(rank) for rank in ranks.tolist()}
    size = Counter(host_of.values())
    of_host: dict[str, list[set[int]]] = {host: [] for host in size}
    for rank, windows in hits.items():
        of_host[host_of[rank]].append(windows)
    by_host = {host: len(set[int]().union(*mine)) for host, mine in of_host.items()}
    all_hits, all_hosts = sum(map(len, hits.values())), sum(by_host.values())
    found = set[int]()
    for rank, windows in hits.items():
        host = host_of[rank]
        mine, near = ([windows], 1) if len(size) < 2 else (of_host[host], size[host])
        others = all_hits - sum(map(len, mine))
        tests = TESTS if len(size) > 1 and size[host] > 1 else 1  # of a lone rank both are the same
        is_mine = _is_often(len(windows), others, peers=len(host_of) - near, places=len(host_of), tests=tests)
        elsewhere = all_hosts - by_host[host]
        is_shared = _is_often(by_host[host], elsewhere, peers=len(size) - 1, places=len(size), tests=tests)
        if len(windows) >= MIN_WINDOWS and (is_mine or is_shared):
            found.add(rank)
    return frozenset(found)


def _is_often(num: int, others: int, *, peers: int, places: int, tests: int) -> bool:
    """Whether `num` windows come too rarely to any of `places` by the rate of the `others` of its `peers`, in one of so
    many `tests`."""
    if num < MIN_WINDOWS or not peers:
        return False
    expected = (others + UNSEEN) / peers
    below = sum(expected**k / math.factorial(k) for k in range(num)) * math.exp(-expected)
    return places * (1.0 - below) <= CHANCE / tests


def late_by_hiccup(window: Window, digest: Digest) -> Bools:
    """Ranks whose lateness comes from own work of a step or two. (rank,)"""
    own = window.self_s.sum(axis=0)[:, window.usable]
    excess = np.nan_to_num(digest.own_s - digest.own_peers_s)
    from_own = excess >= OWN_PART * np.nan_to_num(digest.late_s)
    return np.asarray(from_own & (excess > 0) & ~lasts(own, work_classes(window.topology, window.ranks)))
