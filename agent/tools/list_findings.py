"""What the detectors found in a run, the costliest of the latest windows first."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from argus.agent.context import ToolContext, as_of, fleet_of, incident_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.facts import RunFacts
from argus.agent.rows import DOC_RUN, finding_row
from argus.analytics.finding import Finding

MAX_ROWS = 20
"""Findings of one answer: more are for `rank`, `level` or `kind` to narrow."""

LOOK_BACK = 10
"""Windows of the list when none is asked for: what is older was either an incident or is over."""


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    incident: Annotated[str | None, "id: only the findings behind this incident"],
    level: Literal["L1", "L2", "L3", "L5"] | None,
    kind: Annotated[str | None, "such as self_time, wait, transfer, kernel_shift, stop"],
    rank: Annotated[int | None, "only findings that name this rank"],
) -> Answer:
    """Findings of the detectors over the latest windows, costliest first, and how many of each kind."""
    facts = context.of_run(run)
    if rank is not None:
        fleet_of(facts).topology.check_rank(rank)
    found = _behind(context, incident) if incident else _latest(facts)
    wanted = [
        one
        for one in found
        if (level is None or one.level == level)
        and (kind is None or one.kind == kind)
        and (rank is None or rank in one.ranks)
    ]
    counts = Counter((one.level, one.kind, one.role) for one in found)
    kinds: list[Json] = [
        {"level": level, "kind": kind, "role": role, "num": num}
        for (level, kind, role), num in sorted(counts.items())
    ]
    data = {"num_matching": len(wanted), "kinds": kinds}
    if not wanted:
        note = "no finding matches" if found else "the detectors found nothing in these windows"
        return Answer(status="no_data", data=data, note=note, as_of=as_of(facts))
    wanted.sort(key=lambda one: (-(one.effect_s_per_step or 0.0), -one.window, one.id))
    rows = [finding_row(one) for one in wanted[:MAX_ROWS]]
    cut = (Cut(path="/findings", shown=len(rows), total=len(wanted)),) if len(rows) < len(wanted) else ()
    return Answer(data={**data, "findings": rows}, as_of=as_of(facts), cut=cut)


def _latest(facts: RunFacts) -> list[Finding]:
    windows = facts.windows(limit=LOOK_BACK)
    return list(facts.findings(since_window=windows[-1].index)) if windows else []


def _behind(context: ToolContext, incident: str) -> list[Finding]:
    ids = incident_of(context, incident).cause.findings
    return [one for one in (context.facts.finding(key) for key in ids) if one is not None]
