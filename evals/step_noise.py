"""Families of healthy step times: what noise can look like without anything being wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from argus.analytics.window import Floats

Family = Callable[[np.random.Generator, int], Floats]
"""So many step times about 1."""


def log_normal(rng: np.random.Generator, count: int, *, spread: float) -> Floats:
    """Independent, as most jobs."""
    return np.exp(rng.normal(0, spread, count))


def wandering(rng: np.random.Generator, count: int, *, repeats: float, spread: float) -> Floats:
    """Each step resembles the one before (AR(1)): heat, shared storage, other jobs."""
    logs = rng.normal(0, spread * np.sqrt(1 - repeats**2), count)
    for place in range(1, count):
        logs[place] += repeats * logs[place - 1]
    return np.asarray(np.exp(logs))


def heavy_tailed(rng: np.random.Generator, count: int) -> Floats:
    """Student's t of three degrees of freedom."""
    return np.asarray(np.exp(0.02 * rng.standard_t(3, count)))


def one_sided(rng: np.random.Generator, count: int) -> Floats:
    """An exponential wait on top of the work."""
    return 1 + rng.exponential(0.05, count)


def ticking(rng: np.random.Generator, count: int) -> Floats:
    """A timer that knows 4 % steps only."""
    return np.asarray(np.round(np.exp(rng.normal(0, 0.02, count)) / 0.04) * 0.04)


def spiked(rng: np.random.Generator, count: int) -> Floats:
    """One step in a hundred takes up to five times as long."""
    high = np.where(rng.random(count) < 0.01, rng.uniform(1.2, 5, count), 1.0)
    return np.asarray(np.exp(rng.normal(0, 0.02, count)) * high)


def of_lengths(rng: np.random.Generator, count: int) -> Floats:
    """Three kinds of batches at random."""
    lengths = rng.choice([1, 1.1, 1.25], p=[0.6, 0.3, 0.1], size=count)
    return np.asarray(np.exp(rng.normal(0, 0.01, count)) * lengths)


def in_bursts(rng: np.random.Generator, count: int) -> Floats:
    """Every few hundred steps two to four in a row take up to twice as long."""
    values = np.exp(rng.normal(0, 0.02, count))
    place = int(rng.exponential(400))
    while place < count:
        values[place : place + int(rng.integers(2, 5))] *= rng.uniform(1.1, 2)
        place += 5 + int(rng.exponential(400))
    return np.asarray(values)


def saw_toothed(rng: np.random.Generator, count: int) -> Floats:
    """Rises by a tenth over 80 steps and falls back."""
    tooth = (np.arange(count) + int(rng.integers(80))) % 80 / 80
    return np.asarray(np.exp(rng.normal(0, 0.01, count)) * (1 + 0.1 * tooth))


FAMILIES: Mapping[str, Family] = {
    "log-normal 1 %": partial(log_normal, spread=0.01),
    "log-normal 3 %": partial(log_normal, spread=0.03),
    "log-normal 6 %": partial(log_normal, spread=0.06),
    "log-normal 15 %": partial(log_normal, spread=0.15),
    "AR(1) 0.3, 3 %": partial(wandering, repeats=0.3, spread=0.03),
    "AR(1) 0.6, 3 %": partial(wandering, repeats=0.6, spread=0.03),
    "AR(1) 0.9, 1 %": partial(wandering, repeats=0.9, spread=0.01),
    "AR(1) 0.9, 3 %": partial(wandering, repeats=0.9, spread=0.03),
    "heavy tail": heavy_tailed,
    "one-sided": one_sided,
    "quantised timer": ticking,
    "lone spikes": spiked,
    "batch lengths": of_lengths,
    "short bursts": in_bursts,
    "saw-tooth": saw_toothed,
}
