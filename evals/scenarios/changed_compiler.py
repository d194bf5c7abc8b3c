"""Since a restart on the same layout all steps of all ranks take a twentieth longer: kernels are not tuned any more."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_restart
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MAX_WINDOWS = 5
"""Two windows of a new attempt only teach, four are compared with the attempt before."""

STEP_RATIO = 1.05
"""The least slowdown that is to be found."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """run.changed from the first step on, the twin of restarted_elsewhere; `severity` plays no part."""
    drawn, before = draw_restart(seed=seed, ranks=ranks, env=(("TORCHINDUCTOR_MAX_AUTOTUNE", "0"),))
    fault = Fault(kind="slow_all", ranks=tuple(range(ranks)), severity=STEP_RATIO)
    return drawn.restarted("run.changed", fault, before=before)
