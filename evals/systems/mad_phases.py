"""Robust z-score of each phase over all ranks: more than 3.5 median absolute deviations is a straggler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import CLASS_OF_PHASE, Seen, Suspicion, over_steps

READS = ("cells",)
"""Which of the uploaded records it looks at."""

LIMIT = 3.5
"""Iglewicz and Hoaglin's usual cut for the modified z-score."""
MAD_TO_SIGMA = 1.4826


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """The farthest rank of each window, with the phase it is far in."""
    for at, one in enumerate(seen):
        phases = over_steps(one.window.dur_s, one.window)
        known = np.isfinite(phases).sum(axis=1) > 2
        if not known.any():
            continue
        kept = phases[known]
        away = kept - np.nanmedian(kept, axis=1, keepdims=True)
        spread = MAD_TO_SIGMA * np.nanmedian(np.abs(away), axis=1, keepdims=True)
        scores = np.nan_to_num(away / np.where(spread > 0, spread, np.inf))
        phase, rank = np.unravel_index(int(np.argmax(scores)), scores.shape)
        if scores[phase, rank] > LIMIT:
            name = one.window.phases[int(np.flatnonzero(known)[phase])]
            yield Suspicion(
                at=at,
                fault_class=CLASS_OF_PHASE.get(name, "unknown"),
                ranks=(int(one.window.ranks[rank]),),
                share=float(scores[phase, rank]),
            )
