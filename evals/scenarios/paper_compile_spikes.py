"""Paper case 4: once in a while a kernel is compiled for a new shape, and a backward takes forty times as long."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

EVERY = 17
"""Steps from one new shape to the next: rare enough to vanish in a window's mean."""

FACTOR = 24.0
"""At the usual severity a backward takes forty times as long."""


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
    fault = Fault(
        kind="compile", ranks=tuple(range(ranks)), severity=1 + FACTOR * (severity - 1), every=EVERY
    )
    return replace(drawn, job=job, onset_step=45).with_fault(
        "host.jit", fault, scope=f"run:{job.run}", ranks=(), end_step=None, exonerated=("compute.slow",)
    )
