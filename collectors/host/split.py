"""Where sorted durations fall apart into modes: density valleys, filtered by a named rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from argus.collectors.host.density import Floats, Ints, Valleys, densities, valleys

_NORMAL_IQR = 1.349
"""Interquartile range of a standard normal."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One pass over the segments found so far.

    `factor` on the bandwidth; `max_valley`: a valley must fall below this part of the lower of its two peaks;
    `min_count`, `min_share`: fewest samples of a segment, and as a part of what is cut; `min_span_ratio`: the
    middle nine tenths of a segment must span this much to be looked at.
    """

    factor: float = 1.0
    max_valley: float = 1.0
    min_count: int = 3
    min_share: float = 0.0
    min_span_ratio: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How groups are split.

    `constant`: h = constant · σ · n^(−1/5); 1.06 is optimal for one normal mode, below 0.8 a third of
    unimodal groups fall apart. `robust`: σ = min(std, IQR/1.349); the std of two distant modes would hide what
    lies between them. `sigma_floor`: lowest σ of log duration; clocks tick in 1–32 ns, kernels last
    microseconds. `min_gap_ratio`: neighbouring modes (paper: neighbouring cuts) at least this far apart;
    closer ones are one mode to a few per cent. `max_clusters` bounds the size of a summary. `min_group`: below
    it one cluster; a density of seven samples is seven bumps.

    `looks`: the first keeps a tail of one in five hundred, three samples being the fewest that repeat, and
    asks for a valley a quarter below its peaks, for the noise of a hundred samples makes dents of a tenth. Many
    modes spread every measure of scale, so wide segments are looked at again with their own, narrower
    bandwidth, where only deep valleys between solid modes count.
    """

    constant: float = 1.06
    robust: bool = True
    sigma_floor: float = 1e-3
    min_gap_ratio: float = 1.08
    max_clusters: int = 8
    min_group: int = 8
    looks: tuple[Look, ...] = (
        Look(max_valley=0.75, min_share=0.002),
        Look(factor=0.6, max_valley=0.4, min_count=8, min_share=0.05, min_span_ratio=1.2),
        Look(factor=0.25, max_valley=0.2, min_count=8, min_share=0.05, min_span_ratio=1.5),
    )


ROBUST = Rule()

PAPER = Rule(
    robust=False,
    sigma_floor=1e-6,  # the paper names no floor; this one only avoids division by zero
    min_gap_ratio=1.15,
    max_clusters=256,
    min_group=2,
    looks=(Look(),),
)
"""The published rule: std bandwidth, minimum samples beside a valley, minimum gap between cuts."""


def split(durations: Floats, bounds: Ints, *, rule: Rule) -> Ints:
    """Bounds of the modes of the groups `durations[bounds[g]:bounds[g + 1]]`, each sorted, none empty."""
    if len(durations) == 0:
        return np.zeros(1, np.int64)
    logs = np.log(durations)
    tick = _tick(durations)
    known = bounds
    for look in rule.looks:
        first, last = known[:-1], known[1:]
        margin = (last - first) // 20 if look.min_span_ratio > 1 else np.zeros_like(first)
        span = logs[last - 1 - margin] - logs[first + margin]
        wide = span >= math.log(max(rule.min_gap_ratio, look.min_span_ratio))
        usable = (last - first >= rule.min_group) & wide
        if usable.any():
            cuts = _cut_once(logs, first[usable], last[usable], tick=tick, rule=rule, look=look)
            known = np.sort(np.concatenate([known, cuts]))
    return _cap(logs, known, bounds=bounds, most=rule.max_clusters)


def bandwidths(logs: Floats, bounds: Ints, *, tick_log: Floats, rule: Rule) -> Floats:
    """h of each group, with σ floored at the rule's floor and at half a tick of the clock."""
    first, size = bounds[:-1], np.diff(bounds)
    middle = logs[first + size // 2]
    centred = logs - np.repeat(middle, size)
    mean = np.add.reduceat(centred, first) / size
    square = np.add.reduceat(centred * centred, first) / size
    sigma = np.sqrt(np.maximum(square - mean * mean, 0.0) * size / np.maximum(size - 1, 1))
    if rule.robust:
        low, high = first + (size - 1) // 4, first + (3 * (size - 1)) // 4
        spread = (logs[high] - logs[low]) / _NORMAL_IQR
        sigma = np.where(spread > 0, np.minimum(sigma, spread), sigma)
        sigma = np.maximum(sigma, 0.5 * tick_log)
    return np.asarray(rule.constant * np.maximum(sigma, rule.sigma_floor) * size**-0.2)


def _cut_once(logs: Floats, first: Ints, last: Ints, *, tick: float, rule: Rule, look: Look) -> Ints:
    """Accepted cuts (sample indices) of the groups `logs[first:last]`."""
    size = last - first
    bounds = np.concatenate([[0], np.cumsum(size)])
    index = None
    if bounds[-1] == len(logs):
        some = logs
    else:
        index = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], size)
        some = logs[index]
    tick_log = tick * np.exp(-some[bounds[:-1] + size // 2])
    wide = bandwidths(some, bounds, tick_log=tick_log, rule=rule)
    grid = densities(some, bounds, bandwidth=wide * look.factor)
    found = valleys(grid, some, bounds=bounds)
    cuts: list[int] = []
    edges = np.searchsorted(found.group, np.arange(len(size) + 1))
    for group in np.flatnonzero(np.diff(edges)):
        here = slice(int(edges[group]), int(edges[group + 1]))
        kept = _filter(
            found, here, start=int(bounds[group]), end=int(bounds[group + 1]), rule=rule, look=look
        )
        cuts += [int(first[group]) + cut - int(bounds[group]) for cut in kept]
    return np.array(cuts, np.int64)


def _filter(found: Valleys, here: slice, *, start: int, end: int, rule: Rule, look: Look) -> list[int]:
    """Drop the shallowest offending valley of one group until none offends."""
    samples: list[int]
    samples, heights = found.sample[here].tolist(), found.height[here].tolist()
    peaks = [float(found.left_peak[here.start]), *found.right_peak[here].tolist()]
    logs = found.log[here].tolist()
    modes = [float(found.first_mode[found.group[here.start]]), *found.mode[here].tolist()]
    least = max(look.min_count, math.ceil(look.min_share * (end - start)))
    gap = math.log(rule.min_gap_ratio)
    while samples:
        edges = [start, *samples, end]
        small = [edges[i + 1] - edges[i] < least for i in range(len(edges) - 1)]
        near = modes if rule.robust else [-math.inf, *logs]
        worst, height = -1, -1.0
        for i in range(len(samples)):
            depth = heights[i] / min(peaks[i], peaks[i + 1])
            bad = small[i] or small[i + 1] or near[i + 1] - near[i] < gap or depth > look.max_valley
            if bad and depth > height:
                worst, height = i, depth
        if worst < 0:
            break
        del samples[worst], heights[worst], logs[worst]
        lower = worst if peaks[worst] < peaks[worst + 1] else worst + 1
        del peaks[lower], modes[lower]
    return samples


def _cap(logs: Floats, known: Ints, *, bounds: Ints, most: int) -> Ints:
    """Merge the nearest modes of groups with more than `most`."""
    counts = np.diff(np.searchsorted(known, bounds))
    kept = known
    for group in np.flatnonzero(counts > most):
        inner = known[(known > bounds[group]) & (known < bounds[group + 1])]
        gaps = logs[inner] - logs[inner - 1]
        kept = np.setdiff1d(kept, inner[np.argsort(gaps, kind="stable")[: counts[group] - most]])
    return kept


def _tick(durations: Floats, *, most: int = 4096) -> float:
    """Greatest common step of the clock that measured these durations, from an even sample of them."""
    sample = durations[:: max(1, len(durations) // most)]
    return float(np.gcd.reduce(sample.astype(np.int64)))
