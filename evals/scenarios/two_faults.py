"""Two ranks are slow at the same time, for different reasons: one computes, one waits for its data."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import END_STEP, draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario, Truth


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow and, half a job away, one of data.slow_loader."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    other = (drawn.rank + ranks // 2) % ranks
    slow = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    one = drawn.with_fault("compute.slow", slow)
    late = Fault(
        kind="data", ranks=(other,), severity=severity, start_step=drawn.onset_step, end_step=END_STEP
    )
    truth = Truth(
        fault_class="data.slow_loader",
        ranks=(other,),
        scope=f"rank:{other}",
        onset_step=drawn.onset_step,
        end_step=END_STEP,
    )
    return replace(one, faults=(*one.faults, late), also=(truth,))
