"""A GPU flips between a fast and a slow state by itself, minutes in each, and no counter says why."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

FIRST, ON, EVERY, STEPS = 50, 30, 60, 230
"""The first slow state, how long each lasts, from one to the next, and the job, in steps."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, three times."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, steps=STEPS), onset_step=FIRST)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    made = drawn.with_fault("compute.slow", fault, end_step=None, exonerated=("link.slow",))
    bouts = tuple(
        replace(fault, start_step=first, end_step=first + ON) for first in range(FIRST, STEPS, EVERY)
    )
    return replace(made, faults=bouts)
