"""What an element carries and who depends on it."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, as_of, fleet_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, MAX_NAME, number
from argus.collectors.records.text import tame
from argus.topology.reach import blast_radius

MAX_LIST = 24


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    node: Annotated[str, "kind:name, such as host:h-1, nic:h-1/mlx5_0, leaf:2"],
) -> Answer:
    """How far trouble at an element reaches: its ranks, GPUs, hosts and stages, and per kind of group how
    many ranks wait at the next collective. Ask before proposing to drain or reset it."""
    facts = context.of_run(run)
    found = blast_radius(fleet_of(facts), node)
    lists: dict[str, list[int] | list[str]] = {
        "ranks": list(found.ranks),
        "gpus": _names(found.gpus),
        "hosts": _names(found.hosts),
        "stages": _names(found.stages),
    }
    groups: list[Json] = [
        {"kind": kind, "num_groups": len(ids), "ranks_reached": found.reached[kind]}
        for kind, ids in found.groups.items()
    ]
    data: Json = {
        "node": tame(found.element, MAX_NAME),
        "share_of_world": number(found.share_of_world),
        **{f"num_{key}": len(items) for key, items in lists.items()},
        "groups": groups,
        **{key: items[:MAX_LIST] for key, items in lists.items()},
    }
    cut = [Cut(path=f"/{k}", shown=MAX_LIST, total=len(v)) for k, v in lists.items() if len(v) > MAX_LIST]
    return Answer(data=data, as_of=as_of(facts), cut=tuple(cut))


def _names(elements: tuple[str, ...]) -> list[str]:
    return [tame(one, MAX_NAME) for one in elements]
