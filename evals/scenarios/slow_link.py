"""The gradient transfers of one group are slow for all its members, nobody enters late."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.truth import Scenario
from argus.topology.layout import build


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """The group of one rank of link.slow; its members are the root set, the group is the scope."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    made = drawn.scenario("link.slow", kind="link", severity=severity)
    groups = shape_of(drawn.job).groups["dp"]
    name = groups.name_of(drawn.rank)
    group = build(layouts(drawn.job)).named[drawn.rank, name]
    truth = replace(made.truth, ranks=group.ranks, scope=f"group:{group.id}")
    return replace(made, truth=truth)
