"""The links inside one host are slow: the tensor-parallel group on it, and no other group, waits for its wires."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_tensor
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 8
"""Two groups of four: of two ranks each nobody can say which wire it is."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One tensor-parallel group of link.slow, the twin of slow_tensor_rank."""
    drawn = draw_tensor(seed=seed, ranks=ranks)
    kind = "tp" if "tp" in shape_of(drawn.job).groups else drawn.job.grad_kind
    fault = Fault(kind="link", group=kind, ranks=(drawn.rank,), severity=severity)
    made = drawn.with_fault("link.slow", fault, exonerated=("compute.slow",))
    return replace(made, truth=drawn.path_truth(made.truth, kind))
