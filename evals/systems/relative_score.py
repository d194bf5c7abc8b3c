"""Relative performance: the fastest rank scores 1, below 0.7 is a straggler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import Seen, Suspicion, over_steps

LIMIT = 0.7
"""The documented default of the fault-tolerance library that made this score known."""

SECTIONS = ("forward", "backward")


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """Every rank below the limit in the time of its forward and backward together."""
    for at, one in enumerate(seen):
        at_phase = [one.window.phases.index(name) for name in SECTIONS if name in one.window.phases]
        total = over_steps(one.window.dur_s[at_phase], one.window).sum(axis=0)
        if not at_phase or not np.isfinite(total).any():
            continue
        score = np.nanmin(total) / total
        for row in np.flatnonzero(score < LIMIT):
            rank = int(one.window.ranks[row])
            yield Suspicion(at=at, fault_class="compute.slow", ranks=(rank,), share=1 - float(score[row]))
