"""A rank of a tensor-parallel group computes slower: all its siblings' calls end late, their wires are well."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_tensor
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of compute.slow, the twin of slow_nvlink."""
    drawn = draw_tensor(seed=seed, ranks=ranks)
    fault = Fault(kind="compute", ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault("compute.slow", fault, exonerated=("link.slow",))
