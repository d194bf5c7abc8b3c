"""Ranks beside their peers in a phase: whom the order puts first, whatever else some of them do."""

from __future__ import annotations

import numpy as np

from argus.agent.tools.compare_phase import Beside
from argus.analytics.numbers import WindowNumbers
from argus.topology.layout import Topology

RANKS = 8
SLOW = 2


def beside(phase_s: dict[str, list[float]]) -> Beside:
    """A window of some ranks of the same work that wait for nobody."""
    square = np.array(list(phase_s.values()))
    numbers = WindowNumbers(
        ranks=np.arange(RANKS),
        phases=tuple(phase_s),
        clocks=("wall",) * len(phase_s),
        step_s=np.ones(RANKS),
        phase_s=square,
        wait_s=np.zeros(square.shape),
        cpu_s=square,
        job_step_s=np.ones(10),
        work=np.full(RANKS, np.nan),
    )
    return Beside(topology=Topology(run="r", attempt=0, world_size=RANKS), numbers=numbers)


FORWARD = [2.0 if rank == SLOW else 1.0 for rank in range(RANKS)]
ON_RANK_0_ALONE = [5.0 if rank == 0 else np.nan for rank in range(RANKS)]


def test_a_phase_of_one_rank_alone_hides_no_slow_rank_in_the_others() -> None:
    found = beside({"forward": FORWARD, "rollout": ON_RANK_0_ALONE})
    assert found.slowest([0, 1]) == [(0, SLOW)]
    assert found.pairs([0, 1], range(RANKS))[0] == (0, SLOW)


def test_whoever_is_asked_for_comes_with_every_phase() -> None:
    found = beside({"forward": FORWARD, "rollout": ON_RANK_0_ALONE})
    assert sorted(found.pairs([0, 1], [0, 5])) == [(0, 0), (0, 5), (1, 0), (1, 5)]
