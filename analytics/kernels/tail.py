"""Thresholds from a false-alarm budget, read off the healthy tail of the scores themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.analytics.special import log_ndtr, ndtri

Reals = NDArray[np.float32]

NEAR, FAR = 1e-2, 1e-3
"""Where a long tail is read, and `MANY` scores are enough for it: ten lie beyond the far point."""

MANY = 10_000
MIN_SCORES = 20
"""Below it nothing can be read and `BLIND` holds."""

BLIND = 10.0
LEAST = 6.0
"""Never below six robust deviations, however short the tail looks: the centre is an estimate too."""

FEW_BEYOND = 5
"""Scores beyond the point where a short tail is read."""

NORMAL_RATE = (math.log(NEAR) - math.log(FAR)) / (3.0902 - 2.3263)
"""Decay of a normal tail between the two points; a faster one is not believed."""


@dataclass(frozen=True, kw_only=True)
class Tail:
    """Healthy scores beyond the bulk.

    `rate` > 0: P(score > z) = `FAR` · exp(−rate · (z − far)), heavier than the normal it may be. `rate` = 0: too
    few scores for that, a normal as wide as the far point says, `far` times the standard one.
    """

    far: float
    rate: float
    is_known: bool = True

    def threshold(self, probability: float) -> float:
        """Score exceeded with `probability` on healthy data."""
        if not self.is_known:
            return BLIND
        if self.rate > 0:
            return max(LEAST, self.far + math.log(FAR / probability) / self.rate)
        return max(LEAST, -float(ndtri(probability)) * self.far)

    def log10_probability(self, score: float) -> float:
        """log10 of P(score > z), no more than 0."""
        if self.rate > 0:
            return min(0.0, (math.log(FAR) - self.rate * (score - self.far)) / math.log(10.0))
        return float(log_ndtr(-score / self.far)) / math.log(10.0)


def healthy_tail(scores: Reals) -> Tail:
    """Tail of (kernel, rank) scores of which a few ranks or kernels may be sick.

    Faults make ranks slow, so the fast side is healthy; the slow side counts too, less the ranks and
    kernels that stand out against the fast side, because noise is skewed.
    """
    finite = np.isfinite(scores)
    fast = _read(-scores[finite])
    level = fast.threshold(1e-5)
    beyond = finite & (scores > level)
    ranks = beyond.sum(axis=0) > 0.05 * np.maximum(finite.sum(axis=0), 1)
    kernels = beyond.sum(axis=1) > 0.05 * np.maximum(finite.sum(axis=1), 1)
    kept = finite & ~ranks[None, :] & ~kernels[:, None]
    slow = _read(scores[kept])
    if (fast.rate > 0) != (slow.rate > 0):
        return fast if fast.rate == 0 else slow
    return Tail(
        far=max(fast.far, slow.far),
        rate=min(fast.rate, slow.rate),
        is_known=fast.is_known and slow.is_known,
    )


def _read(scores: Reals) -> Tail:
    num = len(scores)
    if num < MIN_SCORES:
        return Tail(far=1.0, rate=0.0, is_known=False)
    if num < MANY:
        probability = FEW_BEYOND / num
        seen = float(np.quantile(scores, 1.0 - probability))
        return Tail(far=max(1.0, seen / max(-float(ndtri(probability)), 0.1)), rate=0.0)
    near, far = np.quantile(scores, [1.0 - NEAR, 1.0 - FAR])
    rate = (math.log(NEAR) - math.log(FAR)) / max(float(far - near), 1e-6)
    return Tail(far=max(float(far), 3.0902), rate=min(rate, NORMAL_RATE))
