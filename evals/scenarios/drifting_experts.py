"""Routing becomes more and more uneven as the training goes on: no balancing loss holds it."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """imbalance.experts of the whole run, from nothing to its full size at the end."""
    drawn = draw_experts(seed=seed, ranks=ranks)
    fault = Fault(kind="routing", ranks=tuple(range(ranks)), severity=1 + 2 * (severity - 1), grows=True)
    return replace(drawn, onset_step=60).with_fault(
        "imbalance.experts",
        fault,
        scope=f"run:{drawn.job.run}",
        ranks=(),
        end_step=None,
        exonerated=("compute.slow",),
    )
