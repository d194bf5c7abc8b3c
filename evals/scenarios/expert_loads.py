"""Tokens are routed unevenly in one of the published ways: a hot rank, a hot pair, a rotating hotspot, bursts.

The balanced way is healthy. A rank without any load costs nobody a hundredth of a step, so it is no trial.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.evals.scenarios._draw import END_STEP, Draw, draw_experts
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

WAYS = ("hot rank", "hot pair", "rotating", "bursts")
TURN_STEPS = 20
MIN_RANKS = 4


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """imbalance.experts of the whole run; no rank is to blame for what it is sent."""
    drawn = draw_experts(seed=seed, ranks=ranks)
    way = str(np.random.default_rng([seed, ranks, 9]).choice(WAYS))
    made = drawn.with_fault(
        "imbalance.experts",
        Fault(kind="work", group="ep", ranks=(drawn.rank,), severity=severity),
        scope=f"run:{drawn.job.run}",
        ranks=(),
        exonerated=("compute.slow", "link.slow"),
    )
    timed = tuple(
        replace(fault, start_step=max(fault.start_step, drawn.onset_step))
        for fault in _faults(way, drawn, severity)
    )
    return replace(made, faults=timed)


def _faults(way: str, drawn: Draw, severity: float) -> list[Fault]:
    """A rank's share of tokens grows so that its expert work, about half of its step, makes its step longer."""
    ranks, rank = drawn.job.ranks, drawn.rank
    more = 1 + 2 * (severity - 1)
    one = Fault(kind="work", group="ep", ranks=(rank,), severity=more, end_step=END_STEP)
    if way == "hot pair":
        return [replace(one, ranks=tuple(sorted({rank, (rank + 1) % ranks})))]
    if way == "rotating":
        turns = range(drawn.onset_step, END_STEP, TURN_STEPS)
        return [
            replace(
                one, ranks=((rank + turn) % ranks,), start_step=at, end_step=min(at + TURN_STEPS, END_STEP)
            )
            for turn, at in enumerate(turns)
        ]
    if way == "bursts":
        return [Fault(kind="routing", ranks=tuple(range(ranks)), severity=more, end_step=END_STEP, every=3)]
    return [one]
