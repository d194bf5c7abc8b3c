"""What happened before: to a host or a GPU, and in incidents like this one."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, Unknown, incident_of
from argus.agent.evidence import Answer, AsOf, Cut, Json
from argus.agent.rows import MAX_NAME, number
from argus.agent.schema import ArgumentError
from argus.agent.similar import Likeness, similar_to
from argus.collectors.records.text import tame

MAX_ROWS = 8
MAX_SEARCHED = 500
"""Past incidents looked through, the latest first."""


def call(
    context: ToolContext,
    *,
    node: Annotated[str | None, "host:… or gpu:…: its record over runs"],
    incident: Annotated[str | None, "id: past incidents like it"],
) -> Answer:
    """The record of a host or GPU over runs, or past incidents that resemble one by class, place and shape,
    with how they ended. A repeat on the same hardware is evidence, a repeat elsewhere is a pattern."""
    if (node is None) == (incident is None):
        raise ArgumentError("name either a node or an incident")
    if incident is not None:
        return _like(context, incident)
    kept = context.facts.history(str(node))
    if kept is None:
        raise Unknown("no history of hosts and GPUs is kept here")
    if not kept:
        return Answer(status="no_data", note=f"nothing is remembered of {str(node)[:80]!r}")
    return Answer(data=kept, as_of=AsOf(run=context.run))


def _like(context: ToolContext, incident_id: str) -> Answer:
    mine = incident_of(context, incident_id)
    past = context.facts.incidents(fault_class=mine.cause.fault_class)[:MAX_SEARCHED]
    found = similar_to(mine, past, hosts=context.facts.hosts_of)
    at = AsOf(run=mine.run, attempt=mine.attempt, window=mine.last_window, step=mine.onset_step)
    if not found:
        return Answer(status="no_data", note=f"no other incident of class {mine.cause.fault_class}", as_of=at)
    rows = [_row(one) for one in found[:MAX_ROWS]]
    cut = (Cut(path="/similar", shown=len(rows), total=len(found)),) if len(rows) < len(found) else ()
    return Answer(data={"num_similar": len(found), "similar": rows}, as_of=at, cut=cut)


def _row(one: Likeness) -> Json:
    past = one.incident
    advice = (past.diagnosis or {}).get("remediation") or [{}]
    return {
        "id": past.id,
        "run": tame(past.run, MAX_NAME),
        "class": past.cause.fault_class,
        "scope": tame(past.cause.scope, MAX_NAME),
        "hosts": [tame(host, MAX_NAME) for host in one.hosts[:4]],
        "same": list(one.same),
        "verdict": past.cause.verdict,
        "status": past.status,
        "onset_step": past.onset_step,
        "end_step": past.end_step,
        "gpu_hours": number(past.cost.gpu_hours_so_far),
        "advised": tame(str(advice[0].get("action", "")), 160),
    }
