"""Wasserstein-1 between ranks: pairs, and each rank's exact mean to all its peers without forming pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.mixture import Floats, Mixture, cdf, log_quantile, partial_mean

STRATA = 256
"""Quantile strata of the default distance: a stratum's mean is exact, so only crossings inside one are lost."""

GRID = 512
"""Points of the paper's log-spaced grid."""

GRID_SIGMAS = 4.0

NODES_AT_ONCE = 32
"""Nodes sorted together: 10,000 ranks of them are a few megabytes."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Each rank's distribution at common nodes, so that W₁ is a weighted L1 distance of rows.

    `value` (rank, node), `weight` (node,).
    """

    value: Floats
    weight: Floats


def quantile_profile(shape: Mixture, *, strata: int = STRATA) -> Profile:
    """Means of Q over strata of u, the last hundredth of the mass cut finer for tails."""
    edges = strata_edges(strata)
    width = np.diff(edges)
    return Profile(value=np.diff(partial_mean(shape, edges), axis=1) / width, weight=width)


def strata_edges(strata: int) -> Floats:
    """Edges of the strata in [0, 1]: a quarter of them in the last hundredth, on a log scale of 1 − u."""
    fine = strata // 4
    body = np.linspace(0.0, 0.99, strata - fine + 1)
    return np.concatenate([body, 1.0 - np.geomspace(0.01, 1e-5, fine)[1:], [1.0]])


def cdf_profile(shape: Mixture, *, points: int = GRID) -> Profile:
    """F on a log-spaced grid over all ranks' clusters, weights of the trapezoid rule in x (the paper's form)."""
    present = shape.weight > 0
    low = np.min((shape.mu - GRID_SIGMAS * shape.low)[present], initial=np.inf)
    high = np.max(
        (shape.mu + GRID_SIGMAS * np.maximum(shape.high, shape.high * shape.z99 / 4))[present],
        initial=-np.inf,
    )
    if not low < high:
        return Profile(value=np.zeros((shape.num_ranks, 1)), weight=np.zeros(1))
    log_x = np.linspace(low, high, points)
    x = np.exp(log_x)
    weight = np.zeros(points)
    weight[:-1] += np.diff(x) / 2.0
    weight[1:] += np.diff(x) / 2.0
    return Profile(value=cdf(shape, log_x), weight=weight)


def mean_w1(profile: Profile) -> Floats:
    """Mean W₁ of each rank to all others: exact over the nodes, N log N each. (rank,)

    For the k-th smallest of N values v, Σⱼ|v − vⱼ| = v(2k − N) − 2Pₖ + T with prefix sum P and total T.

    >>> mean_w1(Profile(value=np.array([[0.0], [1.0], [3.0]]), weight=np.ones(1))).tolist()
    [2.0, 1.5, 2.5]
    """
    value, num = profile.value, len(profile.value)
    if num < 2:
        return np.zeros(num)
    total = np.zeros(num)
    factor = 2.0 * np.arange(1, num + 1) - num
    counted = np.flatnonzero(profile.weight)
    for first in range(0, len(counted), NODES_AT_ONCE):
        nodes = counted[first : first + NODES_AT_ONCE]
        column = np.ascontiguousarray(value[:, nodes].T)
        order = np.argsort(column, axis=1)
        ordered = np.take_along_axis(column, order, axis=1)
        prefix = np.cumsum(ordered, axis=1)
        np.put_along_axis(column, order, ordered * factor - 2.0 * prefix + prefix[:, -1:], axis=1)
        total += profile.weight[nodes] @ column
    return np.asarray(np.maximum(total, 0.0) / (num - 1))


def matrix(profile: Profile) -> Floats:
    """W₁ of every pair; for the few ranks of a flagged set. (rank, rank)"""
    value = profile.value
    return np.array([np.abs(value - row) @ profile.weight for row in value])


def to_peers(profile: Profile, centre: Floats) -> Floats:
    """W₁ of each rank to one distribution at the same nodes, such as the peers' barycentre. (rank,)"""
    return np.asarray(np.abs(profile.value - centre) @ profile.weight)


def barycentre(profile: Profile, *, ranks: NDArray[np.bool_] | None = None) -> Floats:
    """Median over ranks node by node: the distribution with the least total W₁ to them. (node,)"""
    value = profile.value if ranks is None else profile.value[ranks]
    return np.asarray(np.median(value, axis=0))


def quantile_nodes(shape: Mixture, *, nodes: int) -> Floats:
    """Deterministic samples of each rank's mixture, for comparison with other implementations. (rank, node)"""
    from argus.analytics.kernels.mixture import quantile

    return quantile(shape, (np.arange(nodes) + 0.5) / nodes)


__all__ = [
    "Profile",
    "barycentre",
    "cdf_profile",
    "log_quantile",
    "matrix",
    "mean_w1",
    "quantile_profile",
    "to_peers",
]
