"""What two neighbours of a pipeline send each other is slow; both compute as ever."""

from __future__ import annotations

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario
from argus.topology.layout import build


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """Two neighbours of a pipeline group of link.slow; the group is the scope."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    name = shape_of(drawn.job).groups["pp"].name_of(drawn.rank)
    group = build(layouts(drawn.job)).named[drawn.rank, name]
    place = min(group.ranks.index(drawn.rank), len(group.ranks) - 2)
    fault = Fault(kind="link", group="pp", ranks=group.ranks[place : place + 2], severity=severity)
    return drawn.with_fault(
        "link.slow", fault, scope=f"group:{group.id}", ranks=group.ranks, exonerated=("compute.slow",)
    )
