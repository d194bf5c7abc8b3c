"""Who enters a group's collectives last, how late, and how long the transfer itself takes."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from argus.agent.context import ToolContext, Unknown, as_of, fleet_of, window_of
from argus.agent.coverage import with_gaps
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, DOC_WINDOW, MAX_NAME, number
from argus.analytics.skew import Skew, skew_of
from argus.collectors.records.text import tame

MAX_MEMBERS = 256
"""Members whose calls are read for one answer; larger groups are for the detectors, which saw them all."""

MAX_ROWS = 12


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    window: Annotated[int | None, DOC_WINDOW],
    group: Annotated[str, "group id, such as dp/0"],
) -> Answer:
    """Entry skew of a group's collectives: last_share, late_s and wait_s of each member, transfer_s of the calls.
    The last to enter is the suspect, those that wait are victims; a long transfer with nobody late is the path."""
    facts = context.of_run(run)
    fleet, at = fleet_of(facts), window_of(context, facts, window)
    known = fleet.topology.group(group.removeprefix("group:"))
    if len(known.ranks) > MAX_MEMBERS:
        note = f"group {known.id} has {len(known.ranks)} members, at most {MAX_MEMBERS} are compared here"
        return Answer(
            status="no_data",
            note=f"{note}: ask list_findings with kind wait or transfer",
            as_of=as_of(facts, at),
        )
    records = facts.group_window(at.index, ranks=known.ranks)
    if records is None:
        raise Unknown(f"the calls of window {at.index} are not kept any more")
    skew = skew_of(records, known.id)
    if skew is None:
        note = f"no complete call of group {known.id} in the usable steps of window {at.index}"
        answer = Answer(status="no_data", note=note, as_of=as_of(facts, at))
    else:
        rows = _rows(skew, {rank: fleet.topology.host_of(rank) for rank in known.ranks})
        cut = (Cut(path="/members", shown=MAX_ROWS, total=len(rows)),) if len(rows) > MAX_ROWS else ()
        data = {**_calls(skew), "members": rows[:MAX_ROWS]}
        answer = Answer(data=data, as_of=as_of(facts, at), cut=cut)
    return with_gaps(answer, at, asked=known.ranks, world_size=fleet.topology.world_size)


def _calls(skew: Skew) -> Json:
    return {
        "num_calls": skew.num_calls,
        "ops": [tame(op, MAX_NAME) for op in skew.ops[:8]],
        "median_transfer_s": number(float(np.median(skew.transfer_s))),
        "p95_transfer_s": number(float(np.quantile(skew.transfer_s, 0.95))),
        "median_spread_s": number(float(np.median(skew.spread_s))),
        "clock": "rebuilt from durations" if skew.by_durations else "aligned",
    }


def _rows(skew: Skew, hosts: dict[int, str]) -> list[Json]:
    """Members, the most often last first."""
    order = np.lexsort((skew.ranks, -skew.late_s, -skew.last_share))
    return [
        {
            "rank": int(skew.ranks[i]),
            "host": tame(hosts[int(skew.ranks[i])], MAX_NAME),
            "last_share": number(float(skew.last_share[i])),
            "late_s": number(float(skew.late_s[i])),
            "wait_s": number(float(skew.wait_s[i])),
        }
        for i in order
    ]
