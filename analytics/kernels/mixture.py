"""Distributions of kernel durations rebuilt from their clusters: CDF, quantiles, partial means.

A cluster is piecewise log-normal: below its median, up to p99 and up to its maximum ln x is linear in the
normal score, and the lower slope is the one that reproduces the cluster's mean. Clusters are cut at density
valleys, so they follow one another; the quantile function runs through them in order. From paper-mode
clusters (no maximum, no mean) both slopes are (ln p99 − ln p50)/z₀.₉₉ and clusters overlap freely, as
published (ARGUS, arXiv 2606.20374, §6.2).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from argus.analytics.special import ndtr, ndtri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIGMA_FLOOR = 1e-3
"""Lowest spread of log duration: the clock's tick on a kernel of tens of microseconds."""

Z99 = 2.3263478740408408
_NEWTON_STEPS = 8
_SLOPE_RANGE = 4.0
"""The lower slope stays within this factor of the upper: a mean says little about a rare tail's far side."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Mixtures of many ranks, all arrays (rank, cluster); absent clusters have weight 0.

    `mu` = ln p50; `low`, `high`, `tail` slopes below the median, up to normal score `z99` and up to `z_top`,
    beyond which the value stays at the maximum. Times in `exp(ln x)` are those the clusters came in.
    """

    weight: Floats
    mu: Floats
    low: Floats
    high: Floats
    tail: Floats
    z99: Floats
    z_top: Floats

    @property
    def num_ranks(self) -> int:
        """Rows of every array."""
        return len(self.weight)

    def of(self, ranks: Ints) -> Mixture:
        """The mixtures of some rows."""
        return Mixture(**{item.name: getattr(self, item.name)[ranks] for item in fields(self)})


def fit(count: Ints, log_p50: Floats, *, log_p99: Floats, log_max: Floats, log_mean: Floats) -> Mixture:
    """Mixtures of clusters given as (rank, cluster) arrays, count 0 where a rank has fewer.

    Where `log_max` or `log_mean` is NaN the cluster is the published log-normal.
    """
    total = np.maximum(count.sum(axis=1, keepdims=True), 1)
    n = np.maximum(count, 1).astype(np.float64)
    is_paper = np.isnan(log_max) | np.isnan(log_mean)
    # Where p99 and the maximum of n samples lie: sample k of n stands for the score of (k + 1/2)/n.
    z99 = np.where(is_paper, Z99, ndtri(((n - 1) * 0.99 + 0.5) / n))
    z_top = np.where(is_paper, np.inf, ndtri(1.0 - 0.5 / n))
    gap = np.maximum(log_p99 - log_p50, 0.0)
    high = np.maximum(gap / np.maximum(z99, 1e-9), SIGMA_FLOOR)
    high = np.where(z99 <= 0, SIGMA_FLOOR, high)
    reach = np.where(is_paper, 1.0, np.maximum(z_top - z99, 1e-9))
    tail = np.where(is_paper, high, np.maximum(log_max - log_p99, 0.0) / reach)
    shape = Mixture(weight=count / total, mu=log_p50, low=high, high=high, tail=tail, z99=z99, z_top=z_top)
    low = np.where(is_paper, high, _lower_slope(shape, np.exp(log_mean - log_p50)))
    return Mixture(weight=shape.weight, mu=log_p50, low=low, high=high, tail=tail, z99=z99, z_top=z_top)


def log_quantile(shape: Mixture, z: Floats) -> Floats:
    """ln x of each cluster at normal score `z`; the shapes must broadcast."""
    score = np.clip(z, -shape.z_top, shape.z_top)
    upper = shape.high * np.clip(score, 0.0, shape.z99) + shape.tail * np.maximum(score - shape.z99, 0.0)
    return np.asarray(shape.mu + np.where(score < 0, shape.low * score, upper))


def cdf(shape: Mixture, log_x: Floats) -> Floats:
    """Share of each rank's samples at or below `exp(log_x)`. (rank, point)"""
    out = np.zeros((shape.num_ranks, len(log_x)))
    for k in range(shape.weight.shape[1]):
        part = _cluster(shape, k)
        away = log_x[None, :] - part.mu
        p99 = part.high * part.z99
        beyond = np.maximum(away - p99, 0.0) / np.maximum(part.tail, 1e-12)
        upper = np.minimum(away, p99) / part.high + beyond
        score = np.where(away < 0, away / part.low, upper)
        inside = ndtr(score)
        inside[(score > part.z_top)] = 1.0
        inside[(score < -part.z_top)] = 0.0
        out += part.weight * inside
    return out


def partial_mean(shape: Mixture, u: Floats) -> Floats:
    """∫₀ᵘ Q of each rank for each `u` (point,), ascending in [0, 1], clusters in order. (rank, point)"""
    ends = np.cumsum(shape.weight, axis=1)
    out = np.zeros((shape.num_ranks, len(u)))
    for k in range(shape.weight.shape[1]):
        part = _cluster(shape, k)
        begin, end = ends[:, k] - shape.weight[:, k], ends[:, k]
        scale = part.weight * np.exp(part.mu)
        # Points before the cluster begins on any rank have none of it, points after it all.
        first = int(np.searchsorted(u, begin.min(initial=1.0), "right"))
        last = int(np.searchsorted(u, end.max(initial=0.0), "left"))
        # Ranks of one role mostly launch the same counts: one row of scores does for all of them.
        rows = slice(0, 1) if len(begin) and np.ptp(begin) == 0 and np.ptp(part.weight) == 0 else slice(None)
        width = np.maximum(part.weight[rows], 1e-300)
        inside = np.clip((u[None, first:last] - begin[rows, None]) / width, 0.0, 1.0)
        out[:, first:last] += scale * unit_partial(part, ndtri(inside))
        out[:, last:] += scale * unit_partial(part, np.full_like(part.mu, np.inf))
    return out


def quantile(shape: Mixture, u: Floats) -> Floats:
    """Q of each rank at each `u` in (0, 1), clusters in order. (rank, point)"""
    ends = np.cumsum(shape.weight, axis=1)
    out = np.full((shape.num_ranks, len(u)), np.nan)
    for k in range(shape.weight.shape[1]):
        part = _cluster(shape, k)
        begin = (ends[:, k] - shape.weight[:, k])[:, None]
        here = (u[None, :] > begin) & (u[None, :] <= ends[:, k][:, None] + 1e-12) & (part.weight > 0)
        inside = np.clip((u[None, :] - begin) / np.maximum(part.weight, 1e-300), 0.0, 1.0)
        out = np.where(here, np.exp(log_quantile(part, ndtri(inside))), out)
    return out


def unit_partial(shape: Mixture, z: Floats) -> Floats:
    """∫ of x/median over normal scores up to `z`, in closed form.

    Below the lowest sample and beyond the highest x is constant; between them ∫ exp(o + s·z) φ(z) dz is
    exp(o + s²/2) Φ(z − s), with the slope s of the piece that z lies in and what the pieces before it hold.
    """
    top = np.where(np.isfinite(shape.z_top), shape.z_top, 40.0)
    bend = np.minimum(shape.z99, top)
    offset = (shape.high - shape.tail) * bend
    scale = [
        np.exp(0.5 * shape.low**2),
        np.exp(0.5 * shape.high**2),
        np.exp(offset + 0.5 * shape.tail**2),
    ]
    bottom = ndtr(-top) * np.exp(-shape.low * top)
    start = bottom - scale[0] * ndtr(-top - shape.low)
    middle = start + scale[0] * ndtr(-shape.low) - scale[1] * ndtr(-shape.high)
    upper = middle + scale[1] * ndtr(bend - shape.high) - scale[2] * ndtr(bend - shape.tail)
    at = np.clip(z, -top, top)
    is_lower, is_middle = at < 0, at < bend
    slope = np.where(is_lower, shape.low, np.where(is_middle, shape.high, shape.tail))
    factor = np.where(is_lower, scale[0], np.where(is_middle, scale[1], scale[2]))
    before = np.where(is_lower, start, np.where(is_middle, middle, upper))
    inner = before + factor * ndtr(at - slope)
    peak = np.exp(offset + shape.tail * top)
    beyond = np.abs(z) > top
    if not beyond.any():
        return np.asarray(inner)
    outside = np.where(z < 0, ndtr(z) * np.exp(-shape.low * top), inner + (ndtr(z) - ndtr(top)) * peak)
    return np.asarray(np.where(beyond, outside, inner))


def _lower_slope(shape: Mixture, mean: Floats) -> Floats:
    """Slope below the median with which each cluster has the mean `mean` (in medians), within bounds."""
    floor = np.where(np.isfinite(shape.z_top), shape.z_top, 40.0)
    upper = unit_partial(shape, np.full_like(shape.mu, np.inf)) - unit_partial(shape, np.zeros_like(shape.mu))
    target = mean - upper
    slope = shape.high.copy()
    for _ in range(_NEWTON_STEPS):
        scale = np.exp(0.5 * slope * slope)
        cut = np.exp(-slope * floor) * ndtr(-floor)
        inner = ndtr(-slope) - ndtr(-floor - slope)
        value = scale * inner + cut
        density = (np.exp(-0.5 * slope * slope) - np.exp(-0.5 * (floor + slope) ** 2)) / np.sqrt(2 * np.pi)
        gradient = slope * scale * inner - scale * density - floor * cut
        step = np.where(gradient < -1e-9, (value - target) / np.minimum(gradient, -1e-9), 0.0)
        slope = np.clip(slope - step, shape.high / _SLOPE_RANGE, shape.high * _SLOPE_RANGE)
    return np.asarray(np.where(np.isfinite(slope), slope, shape.high))


def _cluster(shape: Mixture, k: int) -> Mixture:
    """Cluster `k` of every rank as (rank, 1) arrays."""
    one = slice(k, k + 1)
    return Mixture(
        weight=shape.weight[:, one],
        mu=shape.mu[:, one],
        low=shape.low[:, one],
        high=shape.high[:, one],
        tail=shape.tail[:, one],
        z99=shape.z99[:, one],
        z_top=shape.z_top[:, one],
    )
