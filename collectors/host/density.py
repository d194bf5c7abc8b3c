"""Gaussian kernel densities of many groups at once, and the valleys of each.

Every group is laid on one long grid whose cell is a fixed part of the group's own bandwidth, so that a
single kernel serves them all and one FFT convolution does a whole window. Linear binning is undone in
the frequency domain (as in particle-mesh codes), which keeps the error below 1e-3 of the peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELLS_PER_BANDWIDTH = 10
"""Grid step = h/10. A valley is placed within one cell from h/4 on; what binning leaves of the error of a peak whose
samples all lie at one place is up to 1/(12 · 10²) of its height, which must stay below 1e-3."""

REACH = 90
"""Cells a sample is felt: 9 bandwidths, where the kernel is 3e-18 of its peak."""

ZERO = 1e-12
"""Part of the peak below which a density is an empty stretch."""

_BLOCK = 8192


@dataclass(frozen=True, kw_only=True)
class Density:
    """Densities of all groups on one grid.

    `value` (cell,) is the share of the group's samples per cell; `cells` (group + 1,) cuts the grid into
    groups; `position` (sample,) says where each sample lies on it; `step` (group,) is a cell in log units.
    """

    value: Floats
    cells: Ints
    position: Floats
    step: Floats


@dataclass(frozen=True, kw_only=True)
class Valleys:
    """Local minima, one entry each: its group, the sample index it cuts before, its height and place.

    `cell` is the middle of the minimum on the grid; `log` the same in log units; `left_peak` and
    `right_peak` are the highest densities between it and the neighbouring minimum, `mode` the log
    position of `right_peak`, `first_mode` (group,) that of the group's first peak.
    """

    group: Ints
    sample: Ints
    height: Floats
    log: Floats
    left_peak: Floats
    right_peak: Floats
    mode: Floats
    first_mode: Floats


def densities(logs: Floats, bounds: Ints, *, bandwidth: Floats) -> Density:
    """Densities of the groups `logs[bounds[g]:bounds[g + 1]]`, each sorted and not empty.

    A stretch without samples longer than twice `REACH` is shortened: nothing is felt in its middle.
    """
    sizes = np.diff(bounds)
    step = bandwidth / CELLS_PER_BANDWIDTH
    hop = np.empty(len(logs))
    hop[0] = 0.0
    np.subtract(logs[1:], logs[:-1], out=hop[1:])
    hop *= np.repeat(1.0 / step, sizes)
    np.minimum(hop, 2.0 * REACH, out=hop)
    hop[bounds[:-1]] = 2.0 * REACH
    hop[0] = REACH
    position = np.cumsum(hop)
    # Every group starts on a cell: where it falls apart must not depend on which kernels are laid out before it.
    starts = position[bounds[:-1]]
    position -= np.repeat(starts - np.floor(starts), sizes)
    # The end of a group is half-way through the padding between it and the next.
    ends = np.floor(position[bounds[1:] - 1]).astype(np.int64) + REACH
    cells = np.concatenate([[0], ends])
    value = _convolve(_bin(position, int(ends[-1]) + 2))
    value = value[: ends[-1]] / np.repeat(sizes, np.diff(cells))
    return Density(value=value, cells=cells, position=position, step=step)


def valleys(density: Density, logs: Floats, *, bounds: Ints) -> Valleys:
    """Every local minimum inside a group; an empty stretch counts as one, in its middle."""
    value, cells = density.value, density.cells
    peak = np.maximum.reduceat(value, cells[:-1])
    value = np.where(value < np.repeat(ZERO * peak, np.diff(cells)), 0.0, value)
    slope = np.sign(np.diff(value))
    turn = np.flatnonzero(slope)
    falls = (slope[turn[:-1]] < 0) & (slope[turn[1:]] > 0)
    left, right = turn[:-1][falls] + 1, turn[1:][falls]
    group = np.searchsorted(cells, left, side="right") - 1
    inside = right < cells[group + 1]
    left, right, group = left[inside], right[inside], group[inside]
    middle = (left + right) / 2.0
    sample = np.searchsorted(density.position, middle, side="left")
    edges = np.sort(np.concatenate([cells[:-1], np.ceil(middle).astype(np.int64)]))
    peaks = np.maximum.reduceat(value, edges)
    at = np.arange(len(left)) + group + 1  # the stretch right of each valley
    sides = _from_sides(density, logs, cell=middle, group=group, sample=sample)
    modes = _modes(density, logs, peaks=peaks, edges=edges)
    return Valleys(
        group=group,
        sample=sample,
        height=value[left],
        log=(sides[0].log + sides[1].log) / 2.0,  # equal unless the stretch between was shortened
        left_peak=peaks[at - 1],
        right_peak=peaks[at],
        mode=modes[at],
        first_mode=modes[np.searchsorted(edges, cells[:-1])],
    )


def _modes(density: Density, logs: Floats, *, peaks: Floats, edges: Ints) -> Floats:
    """Log position of the highest cell of each stretch."""
    sizes = np.diff(np.append(edges, len(density.value)))
    hits = np.flatnonzero(density.value >= np.repeat(peaks, sizes))
    cell = hits[np.searchsorted(hits, edges)]
    group = np.searchsorted(density.cells, edges, side="right") - 1
    sample = np.searchsorted(density.position, cell, side="left")
    left, right = _from_sides(density, logs, cell=cell.astype(np.float64), group=group, sample=sample)
    nearer_left = left.far <= right.far
    return np.where(nearer_left, left.log, right.log)


@dataclass(frozen=True, kw_only=True)
class _Side:
    log: Floats
    far: Floats


def _from_sides(
    density: Density, logs: Floats, *, cell: Floats, group: Ints, sample: Ints
) -> tuple[_Side, _Side]:
    """Grid places in log units, measured from the sample before and from the one after."""
    position, step = density.position, density.step[group]
    first = np.searchsorted(position, density.cells[group], side="left")
    last = np.searchsorted(position, density.cells[group + 1], side="left") - 1
    sides = []
    for index in (np.clip(sample - 1, first, last), np.clip(sample, first, last)):
        away = cell - position[index]
        sides.append(_Side(log=logs[index] + away * step, far=np.abs(away)))
    return sides[0], sides[1]


def _bin(position: Floats, num_cells: int) -> Floats:
    """Each sample shared between its two neighbouring cells."""
    low = position.astype(np.int64)
    part = position - low
    right = np.bincount(low, part, num_cells)
    counts = np.bincount(low, minlength=num_cells).astype(np.float64) - right
    counts[1:] += right[:-1]
    return counts


def _convolve(counts: Floats) -> Floats:
    """`counts` convolved with the Gaussian of `CELLS_PER_BANDWIDTH` cells, in overlapping blocks."""
    hop = _BLOCK - 2 * REACH
    blocks = -(-len(counts) // hop)
    padded = np.zeros(blocks * hop + 2 * REACH)
    padded[REACH : REACH + len(counts)] = counts
    windows = np.lib.stride_tricks.sliding_window_view(padded, _BLOCK)[::hop]
    smooth = np.fft.irfft(np.fft.rfft(windows, axis=1) * _spread(), n=_BLOCK, axis=1)
    return np.maximum(smooth[:, REACH : REACH + hop].reshape(-1)[: len(counts)], 0.0)


@cache
def _spread() -> Floats:
    """The Gaussian over the binning, in the frequency domain of a block."""
    omega = 2.0 * np.pi * np.fft.rfftfreq(_BLOCK)
    return np.asarray(np.exp(-0.5 * (CELLS_PER_BANDWIDTH * omega) ** 2) / np.sinc(omega / (2.0 * np.pi)) ** 2)
