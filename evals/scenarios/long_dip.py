"""The whole job is slow for a long while, then better, but not as fast as before: others share its fabric."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.scenarios.slow_job import STEP_S
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

DIP_STEPS = 60
LEFT = 0.4
"""Of the slowdown that stays after the dip."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """step.slower of the whole run; nobody is to be accused."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    drawn = replace(drawn, job=replace(drawn.job, step_s=STEP_S))
    dip = Fault(kind="slow_all", ranks=tuple(range(ranks)), severity=severity)
    made = drawn.with_fault(
        "step.slower",
        dip,
        scope=f"run:{drawn.job.run}",
        ranks=(),
        end_step=None,
        exonerated=("compute.slow", "link.slow"),
    )
    end = drawn.onset_step + DIP_STEPS
    faults = (
        replace(dip, start_step=drawn.onset_step, end_step=end),
        replace(dip, start_step=end, severity=1 + LEFT * (severity - 1)),
    )
    return replace(made, faults=faults)
