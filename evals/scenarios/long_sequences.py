"""Sequence lengths begin to differ from rank to rank and step to step: another one is slowest each time."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """imbalance.sequence of the whole run; no rank is to blame."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, tells_work=True))
    fault = Fault(kind="lengths", ranks=tuple(range(ranks)), severity=severity)
    return drawn.with_fault(
        "imbalance.sequence", fault, scope=f"run:{drawn.job.run}", ranks=(), exonerated=("compute.slow",)
    )
