"""Says the same of every job: rank 0 computes slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import Seen, Suspicion

READS = ()
"""It looks at no record."""


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """One suspicion, in the middle of the run."""
    if seen:
        yield Suspicion(at=len(seen) // 2, fault_class="compute.slow", ranks=(0,))
