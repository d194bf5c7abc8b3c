"""How often something rare happens at most, given how often it was seen."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def poisson_upper(count: int, *, confidence: float = CONFIDENCE) -> float:
    """Largest mean with which so few events are still not rarer than 1 − confidence (exact, one-sided).

    >>> round(poisson_upper(0), 2), round(poisson_upper(3), 2)
    (3.0, 7.75)
    """
    low, high = float(count), 2.0 * count + 10.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        # By logarithms: of a mean beyond 745 the first term is nought, and all that are made of it.
        log_mean = math.log(middle) if count else 0.0
        total = sum(math.exp(k * log_mean - middle - math.lgamma(k + 1)) for k in range(count + 1))
        low, high = (middle, high) if total > 1 - confidence else (low, middle)
    return high


def per_steps(count: int, steps: int, *, unit: int = 100_000) -> tuple[float, float] | None:
    """Events per `unit` steps and their upper bound; None of no steps."""
    return (count * unit / steps, poisson_upper(count) * unit / steps) if steps else None


def wilson(part: int, whole: int, *, deviations: float = 1.96) -> tuple[float, float] | None:
    """Bounds of a share seen `part` times of `whole` (Wilson 1927), 95 % on both sides; None of none.

    >>> [round(bound, 3) for bound in wilson(473, 473) or ()]
    [0.992, 1.0]
    """
    if not whole:
        return None
    share, square = part / whole, deviations**2
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = (
        deviations / (1 + square / whole) * math.sqrt(share * (1 - share) / whole + square / (4 * whole**2))
    )
    return max(middle - half, 0.0), min(middle + half, 1.0)
