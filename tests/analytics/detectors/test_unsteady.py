"""Ranks that share too few cores stray in all their own work, and a short phase must not drown in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.evals.play import play
from argus.evals.simulator.job import SHARED, Fault, Job
from argus.evals.simulator.simulate import simulate

CROWDED = Job(ranks=4, steps=120, gpu=False, noise=replace(SHARED, rank=0.6))


@pytest.mark.slow
@pytest.mark.parametrize(("severity", "expected"), [(1.3, [("data.slow_loader", (2,))]), (1.0, [])])
def test_a_rank_that_waits_for_data_is_named_among_unsteady_ones(
    severity: float, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    fault = Fault(kind="data", ranks=(2,), severity=severity, start_step=60)
    played = play(simulate(CROWDED, (fault,), rng=np.random.default_rng(5)))
    assert [(i.cause.fault_class, i.cause.suspects) for i in played.incidents] == expected
