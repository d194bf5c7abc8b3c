"""What suspects have in common: the smallest element that explains them, against chance."""

from __future__ import annotations

from typing import Annotated, Literal

from argus.agent.context import ToolContext, as_of, fleet_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, MAX_NAME, number
from argus.agent.schema import ArgumentError
from argus.collectors.records.text import tame
from argus.topology.scope import Shared, shared_elements, smallest_scope

MAX_ROWS = 8
MAX_MEMBERS = 16


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    ranks: list[int],
    nature: Annotated[
        Literal["self_time", "transfer", "copy"], "of the trouble: it orders what may be the cause"
    ],
) -> Answer:
    """Elements suspects share (GPU, host, NIC, switch, rack, group, stage) and the smallest that explains them.
    precision = its members that are suspects, recall = suspects it covers, chance = odds of a coincidence."""
    facts = context.of_run(run)
    fleet = fleet_of(facts)
    if not ranks:
        raise ArgumentError("ranks is empty: name the suspects")
    suspects = [fleet.topology.check_rank(rank) for rank in dict.fromkeys(ranks)]
    scope = smallest_scope(fleet, suspects, nature=nature)
    shared = shared_elements(fleet, suspects, nature=nature, limit=MAX_ROWS * 4)
    rows = [_row(one) for one in shared[:MAX_ROWS]]
    data = {
        "scope": [_row(one) for one in scope.causes[:MAX_ROWS]],
        "note": scope.note,
        "unexplained": list(scope.unexplained[:MAX_MEMBERS]),
        "shared": rows,
    }
    cut = (Cut(path="/shared", shown=len(rows), total=len(shared)),) if len(rows) < len(shared) else ()
    return Answer(data=data, as_of=as_of(facts), cut=cut)


def _row(one: Shared) -> Json:
    return {
        "element": tame(one.element, MAX_NAME),
        "same_as": [tame(name, MAX_NAME) for name in one.elements[1:4]],
        "num_members": one.size,
        "members": list(one.members[:MAX_MEMBERS]),
        "hits": one.hits,
        "precision": number(one.precision),
        "recall": number(one.recall),
        "chance": number(one.chance),
    }
