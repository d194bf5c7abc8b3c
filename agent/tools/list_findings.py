"""What the detectors found in a run, the costliest of the latest windows first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
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
    """Findings of the detectors over the latest windows, costliest first, and how many of each kind.
    What repeats from window to window is one row: its costliest finding, with the windows it was found in."""
    facts = context.of_run(run)
    if rank is not None:
        fleet_of(facts).topology.check_rank(rank)
    found = _behind(context, incident) if incident else _latest(context, facts)
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
    rows = _joined(wanted)
    cut = (Cut(path="/findings", shown=MAX_ROWS, total=len(rows)),) if len(rows) > MAX_ROWS else ()
    return Answer(data={**data, "findings": rows[:MAX_ROWS]}, as_of=as_of(facts), cut=cut)


def _joined(found: Sequence[Finding]) -> list[Json]:
    """One row for what was found in several windows; the costliest first."""
    same: dict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for one in found:
        same[one.level, one.detector, one.kind, one.role, one.ranks, one.group, one.phase, one.kernel].append(
            one
        )
    rows = []
    for here in same.values():
        worst = min(here, key=lambda one: (-(one.effect_s_per_step or 0.0), -one.window, one.id))
        windows = sorted({one.window for one in here})
        row = finding_row(worst)
        rows.append({**row, "windows": {"first": windows[0], "last": windows[-1], "num": len(windows)}})
    return sorted(rows, key=lambda row: (-(row["effect_s_per_step"] or 0.0), row["id"]))


def _latest(context: ToolContext, facts: RunFacts) -> list[Finding]:
    """Findings of the last windows up to the one in question."""
    last = context.window_in_question(facts)
    if last is not None:
        return list(facts.findings(since=last - LOOK_BACK + 1, upto=last))
    windows = facts.windows(limit=LOOK_BACK)
    return list(facts.findings(since=windows[-1].index if windows else None))


def _behind(context: ToolContext, incident: str) -> list[Finding]:
    ids = incident_of(context, incident).cause.findings
    return [one for one in (context.facts.finding(key) for key in ids) if one is not None]
