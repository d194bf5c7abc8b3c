"""From which value on a recorded series of step times grows, and by how much: slow growth that no single change shows."""

from __future__ import annotations

import numpy as np

from argus.analytics.fuse.growing import BEFORE, growth_of
from argus.analytics.series.track import STARTUP
from argus.analytics.window import Floats

PARTS = 40
"""Parts of the series whose medians are looked at: as many as a live job's windows, each of many values."""

FROM_START = 2 * BEFORE
"""Parts at the begin that a level must have been longer than: of a shorter one nobody can say that it was one."""

LEAST = 10
"""Values of a part: the median of fewer strays too far."""


def grows_from(values: Floats, *, least: float) -> tuple[int, float] | None:
    """Place of the first value of what grows by `least` times or more, and how many times as long the last ones take.

    The first place of all where it grew from the start. None where no level with a line that rises from it fits, as where it grew in a few steps or has stopped growing.

    >>> grows_from(np.array([1.0] * 400 + [1.0 + n / 1000 for n in range(400)]), least=1.1)
    (401, 1.4)
    """
    seen = np.flatnonzero(np.isfinite(values) & (values > 0))
    seen = seen[seen >= STARTUP]
    size = max(len(seen) // PARTS, LEAST)
    late = seen[len(seen) % size :]
    rows = np.log(values[late]).reshape(-1, size)
    if not len(rows):
        return None
    spread = np.subtract(*np.quantile(rows, [0.75, 0.25], axis=1)) / 1.349
    error = float(np.median(spread)) * 1.25 / float(np.sqrt(size))
    grown = growth_of(np.median(rows, axis=1), error=error, least=float(np.log(least)))
    if grown is None:
        return None
    first = seen[0] if grown.place <= FROM_START else late[grown.place * size]
    return int(first), round(float(np.exp(grown.now - grown.before)), 2)
