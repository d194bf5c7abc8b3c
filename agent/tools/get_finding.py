"""One finding with every number behind it."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, Unknown
from argus.agent.evidence import Answer, AsOf
from argus.agent.rows import finding_whole
from argus.topology.names import close_names


def call(context: ToolContext, *, finding: Annotated[str, "id, f-…"]) -> Answer:
    """One finding with all its ranks, nodes and the measurements behind it, each beside its baseline."""
    found = context.facts.finding(finding)
    if found is None:
        facts = context.of_run(None)
        known = [one.id for one in facts.findings()]
        close = close_names(finding, known) or tuple(known[:3])
        raise Unknown(f"no finding {finding[:80]!r}; run {facts.run!r} has {len(known)}", close=close)
    at = AsOf(run=found.run, attempt=found.attempt, window=found.window, step=found.end_step)
    return Answer(data=finding_whole(found), as_of=at)
