"""What the slow kernels of a rank have in common is told from those that were found, not from the noise of others."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.kernels.kinds import ALL, breadth
from argus.analytics.window import Window
from tests.analytics.kernels.jobs import Durations, advances

KINDS = ("GEMM",) * 16 + ("attention",) * 2 + ("memory-bound",) * 16
SICK = 5


def told(effect: Durations, *, found: tuple[int, ...]) -> str:
    flags = np.isin(np.arange(len(KINDS)), found)
    return breadth(KINDS, effect.astype(np.float32), weight=np.ones(len(KINDS), np.float32), found=flags)


@pytest.mark.parametrize("chip", [-0.02, -0.005, 0.0, 0.005, 0.02])
@pytest.mark.parametrize("slow", [0.015, 0.05, 0.3])
@pytest.mark.parametrize("at", [3, 17, 20])
def test_one_kernel_found_is_told_by_its_kind_whatever_the_chip(chip: float, slow: float, at: int) -> None:
    effect = chip + 0.003 * np.random.default_rng(at).normal(size=len(KINDS))
    effect[at] = slow
    assert told(effect, found=(at,)) == f"{KINDS[at]} only"


def test_a_kind_that_is_slow_as_a_whole_is_told_besides() -> None:
    effect = np.where(np.array(KINDS) == "attention", 0.0, 0.12)
    assert told(effect, found=(20,)) == "GEMM and memory-bound only"
    assert told(np.full(len(KINDS), 0.12), found=(20,)) == ALL


def test_one_kernel_of_each_kind_is_no_common_factor() -> None:
    effect = np.zeros(len(KINDS))
    effect[[3, 17, 20]] = 0.1
    assert told(effect, found=(3, 17, 20)) == "GEMM and attention and memory-bound only"


@pytest.mark.slow
@pytest.mark.parametrize("sick", [(SICK,), tuple(range(16))])
def test_rare_long_launches_of_a_memory_bound_kernel_are_the_memorys(sick: tuple[int, ...]) -> None:
    def spikes(
        rng: np.random.Generator, rank: int, kernel: str, window: Window, well: Durations
    ) -> Durations:
        is_hit = (rng.random(len(well)) < 0.05) & (rank in sick and kernel == "layer_norm")
        return np.where(is_hit, well * 8.0, well)

    for seed in (7, 8):
        *_, last = advances(spikes, ranks=32, steps=60, seed=seed)
        (incident,) = (one for one in last.state.incidents if one.status == "open")
        assert incident.cause.fault_class == "compute.memory"
        assert incident.cause.suspects == sick
