"""One pipeline stage is cut too large: its backward is longer in all replicas and from the first step on."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A stage of pipeline.imbalance; totals are equal, for all steps end together."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    stage = drawn.rank % drawn.job.pp
    members = tuple(range(*shape_of(drawn.job).stages[stage]))
    fault = Fault(kind="compute", phase="backward", ranks=members, severity=severity)
    return drawn.with_fault("pipeline.imbalance", fault, scope=f"stage:{stage}", onset_step=0, end_step=None)
