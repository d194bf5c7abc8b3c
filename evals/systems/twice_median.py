"""Alarms where a step takes more than twice the median of the steps before it; names no rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.evals.systems._seen import Seen, Suspicion, job_steps

READS = ("steps",)
"""Which of the uploaded records it looks at."""

RATIO = 2.0
LEAST_STEPS = 10
"""Steps before which there is no median to speak of."""


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """A suspicion of the whole run for each window with such a step; the job's step is its slowest rank's."""
    before = np.empty(0)
    for at, one in enumerate(seen):
        job = job_steps(one.window)
        if len(before) >= LEAST_STEPS and bool((job > RATIO * np.median(before)).any()):
            yield Suspicion(at=at, fault_class="step.slower", scope=f"run:{one.window.run}")
        before = np.append(before, job)
