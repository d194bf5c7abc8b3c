"""Families of kernel durations as referees of ARGUS asked for, healthy and with a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""Durations in nanoseconds, (rank, launch)."""

Rng = np.random.Generator

DEVICE_SPREAD = 0.005
"""Lasting difference between healthy chips."""

BASE_NS = 20_000.0
TAIL_RATIO = 8.0
SPIKE_RATIO = 40.0


@dataclass(frozen=True, kw_only=True)
class Family:
    """`draw(rng, shape)` gives healthy durations; the fault is a slowdown, or a tail of `tail_share`.

    `is_varying` = healthy ranks already differ in more than speed.
    """

    draw: Callable[[Rng, tuple[int, int]], Samples]
    tail_share: float = 0.0
    is_varying: bool = False


def _log_normal(rng: Rng, shape: tuple[int, int]) -> Samples:
    return BASE_NS * np.exp(0.03 * rng.normal(size=shape))


def _shifted_gamma(rng: Rng, shape: tuple[int, int]) -> Samples:
    return 0.6 * BASE_NS + rng.gamma(2.0, 0.1 * BASE_NS, shape)


def _uniform(rng: Rng, shape: tuple[int, int]) -> Samples:
    return BASE_NS * rng.uniform(0.8, 1.4, shape)


def _left_skewed(rng: Rng, shape: tuple[int, int]) -> Samples:
    return BASE_NS * np.maximum(1.2 - rng.gamma(2.0, 0.05, shape), 0.2)


def _modes(ratio: float) -> Callable[[Rng, tuple[int, int]], Samples]:
    def draw(rng: Rng, shape: tuple[int, int]) -> Samples:
        second = np.arange(shape[1]) % 2 == 1
        return _log_normal(rng, shape) * np.where(second, ratio, 1.0)

    return draw


def _drift(rng: Rng, shape: tuple[int, int]) -> Samples:
    """All ranks grow slower by a tenth inside the window, as with heat."""
    return _log_normal(rng, shape) * (1.0 + 0.1 * np.arange(shape[1]) / shape[1])


def _routing_skew(rng: Rng, shape: tuple[int, int]) -> Samples:
    """Tokens per expert: the share of long launches differs between ranks."""
    share = rng.uniform(0.4, 0.6, (shape[0], 1))
    long = rng.random(shape) < share
    return _log_normal(rng, shape) * np.where(long, 3.0, 1.0)


def _shape_varying(rng: Rng, shape: tuple[int, int]) -> Samples:
    """Attention over sequences of many lengths: a square law over a log-uniform mix."""
    return 0.2 * BASE_NS * np.exp(2.0 * rng.uniform(0.0, 1.2, shape)) * np.exp(0.02 * rng.normal(size=shape))


def _jit_spikes(rng: Rng, shape: tuple[int, int]) -> Samples:
    """One launch in two thousand compiles first, on any rank."""
    return _log_normal(rng, shape) * np.where(rng.random(shape) < 5e-4, SPIKE_RATIO, 1.0)


FAMILIES: Mapping[str, Family] = {
    "log-normal": Family(draw=_log_normal),
    "shifted gamma": Family(draw=_shifted_gamma),
    "uniform": Family(draw=_uniform),
    "left-skewed": Family(draw=_left_skewed),
    "modes ×1.1": Family(draw=_modes(1.1)),
    "modes ×1.3": Family(draw=_modes(1.3)),
    "modes ×2": Family(draw=_modes(2.0)),
    "modes ×10": Family(draw=_modes(10.0)),
    "modes ×100": Family(draw=_modes(100.0)),
    "tail 0.1 %": Family(draw=_log_normal, tail_share=0.001),
    "tail 0.5 %": Family(draw=_log_normal, tail_share=0.005),
    "tail 2 %": Family(draw=_log_normal, tail_share=0.02),
    "tail 10 %": Family(draw=_log_normal, tail_share=0.1),
    "drift in window": Family(draw=_drift),
    "routing skew": Family(draw=_routing_skew, is_varying=True),
    "shape-varying": Family(draw=_shape_varying, is_varying=True),
    "JIT spikes": Family(draw=_jit_spikes, is_varying=True),
}


def sample(
    family: Family,
    rng: Rng,
    *,
    num_ranks: int,
    count: int,
    device: Samples,
    sick: NDArray[np.bool_],
    factor: float,
) -> Samples:
    """One window: healthy draws times each device's speed, the fault on the `sick` ranks. (rank, launch)"""
    durations = family.draw(rng, (num_ranks, count)) * device[:, None]
    if family.tail_share:
        hit = rng.random(durations.shape) < family.tail_share
        return np.where(sick[:, None] & hit, durations * TAIL_RATIO, durations)
    return np.where(sick[:, None], durations * factor, durations)
