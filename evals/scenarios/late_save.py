"""One rank writes its part of the checkpoints, which are rare, long after all others have."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

EVERY = 20

MAX_WINDOWS = 4
"""It takes three saves to be told from a coincidence."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of host.filesystem; without stacks nothing shows that it was the file system."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    job = replace(drawn.job, checkpoint_every=EVERY)
    onset = -(-drawn.onset_step // EVERY) * EVERY
    fault = Fault(kind="save", ranks=(drawn.rank,), severity=severity)
    made = replace(drawn, job=job, onset_step=onset).with_fault(
        "host.filesystem", fault, end_step=None, exonerated=("compute.slow", "link.slow")
    )
    return replace(made, truth=replace(made.truth, best_verdict="LIKELY"))
