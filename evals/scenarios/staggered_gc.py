"""Full garbage collections of equal length stop one rank after another, so that the job pays for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.evals.scenarios._draw import END_STEP, draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

GAP = (6, 10)
"""Steps from one collection to the next."""

MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """host.gc of the whole run: every rank is next, none is to blame."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    rng = np.random.default_rng([seed, ranks, 8])
    pause = 1 + (severity - 1) * sum(GAP) / 2
    made = drawn.with_fault(
        "host.gc",
        Fault(kind="gc", ranks=(0,), severity=pause),
        scope=f"run:{drawn.job.run}",
        ranks=(),
        exonerated=("compute.slow", "host.cpu_starved"),
    )
    faults, step = [], drawn.onset_step
    while step < END_STEP:
        who = (int(rng.integers(ranks)),)
        faults.append(
            Fault(
                kind="gc",
                ranks=who,
                severity=1 + (pause - 1) / 2,
                start_step=step,
                end_step=step + 1,
                every=2,
            )
        )
        step += int(rng.integers(*GAP))
    return replace(made, faults=tuple(faults))
