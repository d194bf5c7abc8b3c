"""A link flaps: in some steps of any ten the transfers of its group take long, in the others they are as ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.evals.scenarios._draw import END_STEP, draw_tensor
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 8

BAD_SHARE = 0.3
"""Of the steps; each bad one costs so much more that the mean step is that of a steady fault."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One gradient group of link.slow."""
    drawn = draw_tensor(seed=seed, ranks=ranks)
    rng = np.random.default_rng([seed, ranks, 7])
    kind = "dp" if "dp" in shape_of(drawn.job).groups else drawn.job.grad_kind
    whole = 1 + (severity - 1) / BAD_SHARE
    fault = Fault(kind="link", group=kind, ranks=(drawn.rank,), severity=whole)
    made = drawn.with_fault("link.slow", fault, exonerated=("compute.slow",))
    bad = np.flatnonzero(rng.random(END_STEP - drawn.onset_step) < BAD_SHARE) + drawn.onset_step
    steps = sorted({drawn.onset_step, *bad.tolist()})
    faults = tuple(replace(fault, start_step=step, end_step=step + 1) for step in steps)
    return replace(made, faults=faults, truth=drawn.path_truth(made.truth, kind))
