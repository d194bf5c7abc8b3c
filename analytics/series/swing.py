"""Whether a series goes to and fro between two levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ALTERNATIONS = 4
"""Changes to and fro before a level oscillates."""

SAME_SIZE = 2.0
"""No change of them more than so many times as large as another."""


def is_swing(changes: Sequence[float]) -> bool:
    """Whether the last changes (logarithms) went up and down by turns and about as far."""
    if len(changes) < ALTERNATIONS:
        return False
    sizes = np.abs(changes)
    turns = bool((np.sign(changes[1:]) == -np.sign(changes[:-1])).all())
    return turns and float(sizes.max()) <= SAME_SIZE * float(sizes.min())
