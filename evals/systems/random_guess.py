"""Guesses: one rank, one of the known causes, one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.analytics.classes import cause_classes
from argus.evals.systems._seen import Seen, Suspicion

READS = ()
"""It looks at no record."""


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """One suspicion."""
    if seen:
        at = int(rng.integers(len(seen)))
        rank = int(rng.choice(seen[at].window.ranks))
        yield Suspicion(at=at, fault_class=str(rng.choice(sorted(cause_classes()))), ranks=(rank,))
