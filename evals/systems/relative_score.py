"""Relative performance by section: the fastest rank scores 1, below 0.7 is a straggler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import CLASS_OF_PHASE, Seen, Suspicion, over_steps

READS = ("cells",)
"""Which of the uploaded records it looks at."""

LIMIT = 0.7
"""The documented default of the fault-tolerance library that made this score known."""


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """Every rank below the limit in the time of its forward, its backward, or its wait for data."""
    for at, one in enumerate(seen):
        for name, values in zip(one.window.phases, over_steps(one.window.dur_s, one.window), strict=True):
            if name not in CLASS_OF_PHASE or not np.isfinite(values).any():
                continue
            score = np.nanmin(values) / values
            for row in np.flatnonzero(score < LIMIT):
                rank = int(one.window.ranks[row])
                yield Suspicion(
                    at=at, fault_class=CLASS_OF_PHASE[name], ranks=(rank,), share=1 - float(score[row])
                )
