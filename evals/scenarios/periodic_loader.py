"""Every thirty-second step all ranks stand still for their data: the prefetched window is used up."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

PERIOD, FIRST, STEPS = 32, 64, 260
"""The published case's window, the first stall here, and the job, in steps."""


STEP_S = 0.42
"""The published case's step, about."""

MAX_WINDOWS = 8
"""It takes three stalls, a period apart, to be told from a coincidence."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """data.slow_loader of the whole run; a stall makes up for all steps of its period."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    job = replace(drawn.job, steps=STEPS, step_s=STEP_S * (0.8 + 0.4 * drawn.job.step_s), checkpoint_every=0)
    everybody = tuple(range(ranks))
    fault = Fault(kind="data", ranks=everybody, severity=1 + PERIOD * (severity - 1), every=PERIOD)
    return replace(drawn, job=job, onset_step=FIRST).with_fault(
        "data.slow_loader",
        fault,
        scope=f"run:{job.run}",
        ranks=(),
        end_step=None,
        exonerated=("compute.slow", "link.slow"),
    )
