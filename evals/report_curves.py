"""The numbers behind the report's plots: trade-offs, latencies and calibration, from marks alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from argus.agent.triage import CONFIDENCE
from argus.evals.marks import Mark
from argus.evals.rates import wilson
from argus.evals.scoreboard import Share

Point = tuple[float, float]

MOST_WINDOWS = 10
"""Right end of the latency plot."""


def by_system(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """Marks of each system in the order of their first."""
    found: dict[str, list[Mark]] = {}
    for one in marks:
        found.setdefault(one.system, []).append(one)
    return found


def trade_off(marks: Sequence[Mark]) -> list[Point]:
    """Share of healthy trials disturbed, share of faulty trials with a true incident, as one demands more to be told.

    What is demanded is the verdict first, then what the incident is told to cost; the first point demands most. Both
    shares grow, as with an ROC curve. A system that orders nothing has one step.
    """
    faulty = [_loudest(one, true_only=True) for one in marks if one.fault_class is not None]
    healthy = [_loudest(one, true_only=False) for one in marks if one.fault_class is None]
    limits = sorted({one for one in (*faulty, *healthy) if one is not None}, reverse=True)
    return [(0.0, 0.0), *((_above(healthy, limit), _above(faulty, limit)) for limit in limits)]


def _loudest(one: Mark, *, true_only: bool) -> tuple[float, float] | None:
    told = zip(one.sure, one.weights, strict=True)
    loud = [(CONFIDENCE[verdict], weight) for (verdict, true), weight in told if true or not true_only]
    return max(loud, default=None)


def _above(loudest: Sequence[tuple[float, float] | None], limit: tuple[float, float]) -> float:
    heard = sum(one is not None and one >= limit for one in loudest)
    return heard / len(loudest) if loudest else 0.0


def latency(marks: Sequence[Mark]) -> list[Point]:
    """Windows after the onset's, and the share of faulty trials found by then; stops have no windows."""
    rows = [one for one in marks if one.fault_class is not None and not one.fault_class.startswith("stop.")]
    return [
        (float(at), sum(_found_by(one, at) for one in rows) / len(rows))
        for at in range(MOST_WINDOWS + 1)
        if rows
    ]


def _found_by(one: Mark, windows: int) -> bool:
    return one.found and one.delay_windows is not None and one.delay_windows <= windows


def calibration(marks: Sequence[Mark]) -> dict[str, tuple[float, Share, tuple[float, float]]]:
    """For each verdict that was told: the confidence it states, how many were true, and Wilson's bounds."""
    sure = [pair for one in marks for pair in one.sure]
    found = {}
    for verdict, stated in CONFIDENCE.items():
        mine = [true for name, true in sure if name == verdict]
        if bounds := wilson(sum(mine), len(mine)):
            found[verdict] = (stated, Share(part=sum(mine), whole=len(mine)), bounds)
    return found


def rungs(ladder: Mapping[str, Mapping[str, Share]]) -> tuple[list[str], dict[str, list[Point]]]:
    """Names of the severities, and each system's share found at the place of each."""
    names = list(next(iter(ladder.values()), {}))
    return names, {
        system: [(float(at), share.ratio) for at, share in enumerate(row.values()) if share.ratio is not None]
        for system, row in ladder.items()
    }
