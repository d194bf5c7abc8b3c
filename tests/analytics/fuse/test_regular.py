"""A job that is slow in blocks at equal distances, all ranks alike: told three times, then its own."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.fuse.regular import is_due
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

EVERYBODY = (0, 1, 2, 3)
ENDLESS = Fault(kind="slow_all", ranks=EVERYBODY, severity=1.5, start_step=4000)
LONG = 50
BEFORE = [(800, 849, 1.0), (1602, 1651, 1.1), (2400, 2449, 1.0)]


def told(starts: tuple[int, ...], *more: Fault, kind: str = "slow_all") -> list[tuple[int, ...]]:
    """Onsets of all incidents with whom they accuse; more than sixty windows lie between two blocks."""
    ranks = EVERYBODY if kind == "slow_all" else (2,)
    blocks = [
        Fault(kind=kind, ranks=ranks, severity=1.5, start_step=start, end_step=start + LONG)
        for start in starts
    ]
    done = simulate(Job(ranks=4, steps=4500, step_s=2.5), (*blocks, *more), rng=np.random.default_rng(2))
    return [(one.onset_step, *one.cause.suspects) for one in play(done).incidents]


@pytest.mark.long
@pytest.mark.parametrize(
    ("starts", "more", "onsets"),
    [
        ((800, 1600, 2400, 3200, 4000), (), [800, 1600, 2400]),
        ((800, 1600, 2400, 3200, 4100), (), [800, 1600, 2400, 4100]),
        ((800, 1600, 2400, 3200), (ENDLESS,), [800, 1600, 2400, 4000]),
    ],
    ids=["regular", "late", "endless"],
)
def test_from_the_fourth_on_blocks_are_the_jobs_own_until_one_is_late_or_does_not_end(
    starts: tuple[int, ...], more: tuple[Fault, ...], onsets: list[int]
) -> None:
    assert told(starts, *more) == [(onset,) for onset in onsets]


@pytest.mark.long
def test_a_rank_that_is_slow_in_blocks_is_named_however_regularly() -> None:
    found = told((800, 1600, 2400, 3200, 4000), kind="compute")
    assert found and all(suspects == [2] for _, *suspects in found)
    assert found[-1][0] >= 2400


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ((3200, 3229, 1.0), True),
        ((3206, 3229, 1.0), True),
        ((4812, 4841, 1.0), True),
        ((3300, 3329, 1.0), False),
        ((3200, 3400, 1.0), False),
        ((3200, 3229, 2.5), False),
        ((2430, 2459, 1.0), False),
    ],
    ids=["in time", "about", "twice missed", "late", "long", "slow", "at once"],
)
def test_a_block_is_due_at_its_distance_and_no_longer_or_slower(
    now: tuple[int, int, float], due: bool
) -> None:
    assert is_due(BEFORE, now) == due
    assert not is_due(BEFORE[1:], now)


def test_blocks_told_three_times_of_one_begin_are_not_apart() -> None:
    assert not is_due([(800, 849, 1.0), (800, 899, 1.0), (800, 949, 1.0)], (1600, 1649, 1.0))
