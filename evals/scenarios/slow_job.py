"""All ranks become slower alike and stay so: heat, a power cap or other jobs on the fabric; no machine is to blame."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario, Truth

STEP_S = 2.5
"""Windows of 10 steps last as long as the service chooses them, so that what lasts a minute is a few of them."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """step.slower of the whole run; nobody is to be accused."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    job = replace(drawn.job, step_s=STEP_S)
    fault = Fault(
        kind="slow_all",
        ranks=tuple(range(ranks)),
        severity=severity,
        start_step=drawn.onset_step,
        end_step=180,
    )
    truth = Truth(
        fault_class="step.slower",
        scope=f"run:{job.run}",
        onset_step=drawn.onset_step,
        end_step=180,
        exonerated=("compute.slow", "link.slow"),
    )
    return Scenario(job=job, faults=(fault,), truth=truth)
