"""Compares what kernels of hosts count: the rank farthest from all others, if it stays so for two windows.

Only what the operating system tells is looked at, no step, phase or collective.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.analytics.window import Floats, Window
from argus.evals.systems._seen import Seen, Suspicion

READS = ("use",)
"""Which of the uploaded records it looks at."""

LIMIT = 3.0
"""Deviations of a rank's distance from the mean distance."""
WINDOWS = 2


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """The same outlier in consecutive windows."""
    kept: list[int] = []
    for at, one in enumerate(seen):
        kept.append(_outlier(one.window))
        if kept[-1] >= 0 and len(kept) >= WINDOWS and len(set(kept[-WINDOWS:])) == 1:
            rank = int(one.window.ranks[kept[-1]])
            yield Suspicion(at=at, fault_class="host.cpu_starved", ranks=(rank,))


def _outlier(window: Window) -> int:
    """Row of the rank that is far from all others, −1 if none is."""
    metrics = [_scaled(values) for values in window.use.values() if np.isfinite(values).all()]
    if not metrics or len(window.ranks) < 3:
        return -1
    points = np.stack(metrics, axis=1)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2).sum(axis=1)
    z = _scaled(distance)
    worst = int(np.argmax(z))
    # Of n values none is farther than (n − 1) / √n deviations, which few ranks never reach.
    most = (len(z) - 1) / np.sqrt(len(z))
    return worst if z[worst] > min(LIMIT, 0.9 * most) else -1


def _scaled(values: Floats) -> Floats:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))
