"""Paper case 4: once in a while a kernel is compiled for a new shape, and a backward takes forty times as long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario, Truth

ONSET, EVERY = 45, 17
"""First new shape, and steps from one to the next: rare enough to vanish in a window's mean."""

FACTOR = 11.7
"""At the usual severity the backward of one of four micro-batches takes forty times as long."""


def scenario(*, seed: int = 0, ranks: int = 4096, severity: float = 1.5) -> Scenario:
    """host.jit of the whole run: every rank may be next, none is to blame."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    job = replace(
        drawn.job,
        micro_batches=4,
        schedule="1f1b",
        virtual=1,
        length_spread=0.02,
        steps=140,
        checkpoint_every=0,
    )
    rng = np.random.default_rng([seed, ranks, 5])
    faults = tuple(
        Fault(
            kind="compile",
            ranks=(int(rng.integers(ranks)),),
            severity=1 + FACTOR * (severity - 1),
            start_step=step,
            end_step=step + 1,
        )
        for step in range(ONSET, job.steps, EVERY)
    )
    truth = Truth(
        fault_class="host.jit",
        scope=f"run:{job.run}",
        onset_step=ONSET,
        exonerated=("compute.slow",),
    )
    return Scenario(job=job, faults=faults, truth=truth)
