"""Since a restart every rank computes longer: a setting makes every launch wait for the device."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_restart
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MAX_WINDOWS = 5
"""Two windows of a new attempt only teach, four are compared with the attempt before unless they are gross."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """run.changed from the first step of the second attempt on."""
    drawn, before = draw_restart(seed=seed, ranks=ranks, env=(("CUDA_LAUNCH_BLOCKING", "1"),))
    fault = Fault(kind="compute", ranks=tuple(range(ranks)), severity=severity)
    return drawn.restarted("run.changed", fault, before=before)
