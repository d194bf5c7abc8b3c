"""Accuses the rank that spends the longest time in collectives, and its link: whoever waits looks slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import Seen, Suspicion

READS = ("collectives",)
"""Which of the uploaded records it looks at."""

RATIO = 1.1
"""Over the median rank."""


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """The longest of each window, if it stands out."""
    for at, one in enumerate(seen):
        rows = one.window.collectives
        times = rows.end_s - rows.entry_s
        is_seen = np.isfinite(times)
        if not is_seen.any():
            continue
        total = np.bincount(
            one.window.call_row[is_seen], weights=times[is_seen], minlength=len(one.window.ranks)
        )
        middle, worst = float(np.median(total)), int(np.argmax(total))
        if total[worst] > RATIO * middle:
            rank = int(one.window.ranks[worst])
            yield Suspicion(at=at, fault_class="link.slow", ranks=(rank,), share=float(total[worst] - middle))
