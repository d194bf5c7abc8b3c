"""Long steps that fall together are an event only where their frequency alone does not bring them together."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.series.follow import read_whole
from argus.analytics.series.judge import Slowdown, lone_slowdowns
from argus.analytics.window import Floats
from argus.evals.step_noise import FAMILIES


def judged(values: Floats) -> tuple[Slowdown, ...]:
    state, events = read_whole(values)
    return lone_slowdowns(values, events, state.rhythm.periods)


@pytest.mark.slow
def test_steps_of_batches_that_are_often_twice_as_long_are_no_bursts() -> None:
    """A tenth of all batches are: five of them are within twenty values every few hundred."""
    num = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lengths = rng.choice([1, 1.5, 2.2], p=[0.6, 0.3, 0.1], size=150)
        num += len(judged(lengths * np.exp(rng.normal(0, 0.006, 150))))
    assert num == 0


@pytest.mark.parametrize("family", ["log-normal 3 %", "lone spikes", "short bursts"])
def test_bursts_that_come_again_are_still_told(family: str) -> None:
    rng = np.random.default_rng(2)
    values = np.array(FAMILIES[family](rng, 150))
    for start in (37, 75, 112):
        values[start + np.sort(rng.choice(20, 5, replace=False))] *= 3
    assert any(slow.is_burst and 75 <= slow.start < 95 for slow in judged(values))
