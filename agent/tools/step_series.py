"""Step times over the last windows, of the job and of chosen ranks."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, as_of, fleet_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, number
from argus.agent.schema import ArgumentError

MAX_RANKS = 8
MAX_POINTS = 60
"""Windows of one series: at 10–60 s each ten minutes to an hour."""

AFTER = 5
"""Windows after the one in question: whether it lasted."""


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    ranks: Annotated[list[int] | None, "at most 8; null = the job alone"],
    windows: Annotated[int | None, "how many, at most 60; null = 30"],
    since_step: Annotated[int | None, "reach back to before it, leaving windows out; null = the last"],
) -> Answer:
    """Mean seconds of a step in each of the last windows, oldest first: when it changed, and whether it lasts.
    All ranks of a job in step take equally long: a step time says when, not who."""
    facts = context.of_run(run)
    asked = tuple(fleet_of(facts).topology.check_rank(rank) for rank in dict.fromkeys(ranks or ()))
    if len(asked) > MAX_RANKS:
        raise ArgumentError(f"ranks may name {MAX_RANKS} ranks, got {len(asked)}")
    last = context.window_in_question(facts)
    upto = None if last is None else last + AFTER
    limit = max(1, min(windows or 30, MAX_POINTS))
    points = facts.step_times(ranks=asked, limit=limit, upto=upto, since_step=since_step)
    rows: list[Json] = [
        {
            "window": point.window,
            "first_step": point.first_step,
            "job_s": number(point.job_s),
            **({"ranks_s": [number(point.ranks_s.get(rank)) for rank in asked]} if asked else {}),
        }
        for point in points
    ]
    if not rows:
        return Answer(status="no_data", note="no window is analysed yet", as_of=as_of(facts))
    wanted = windows or 0
    cut = (Cut(path="/points", shown=len(rows), total=wanted),) if wanted > MAX_POINTS else ()
    unseen = sorted({rank for point in points for rank in asked if rank not in point.ranks_s})
    return Answer(
        data={"ranks": list(asked), "points": rows},
        status="gap" if unseen else "ok",
        note=f"null = not observed then: ranks {unseen}" if unseen else "",
        as_of=as_of(facts),
        cut=cut,
    )
