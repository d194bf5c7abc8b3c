"""A rank's device memory is full: its allocator flushes its cache and tries again in every step."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of host.allocator."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    fault = Fault(kind="alloc", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("host.allocator", fault, exonerated=("compute.slow",))
